BEGIN TRANSACTION;
CREATE TABLE chat_messages (
	session_id VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	role TEXT NOT NULL, 
	content TEXT NOT NULL, 
	tool_id TEXT NOT NULL, 
	tool_name TEXT NOT NULL, 
	tool_args TEXT NOT NULL, 
	input_tokens INTEGER, 
	output_tokens INTEGER, 
	cache_read_tokens INTEGER, 
	cache_write_tokens INTEGER, 
	created_at VARCHAR(32) NOT NULL, 
	model TEXT, 
	cost FLOAT, 
	is_estimated BOOLEAN, 
	dropped_tokens INTEGER, 
	PRIMARY KEY (session_id, position), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "chat_messages" VALUES('8a50c10b3d3b',0,'user','Where is W1?','','','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:22.760+00:00',NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES('8a50c10b3d3b',1,'assistant','','call_1_0','lookup','{"order": "W1"}',42,12,0,0,'2026-11-23T07:26:23.205+00:00','scripted:model',NULL,0,0);
INSERT INTO "chat_messages" VALUES('8a50c10b3d3b',2,'tool','W1 was shipped','call_1_0','lookup','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.230+00:00',NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES('8a50c10b3d3b',3,'assistant','The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. ','','','',63,93,0,0,'2026-11-23T07:26:23.248+00:00','scripted:model',NULL,0,0);
INSERT INTO "chat_messages" VALUES('8a50c10b3d3b',4,'user','﷐and \x00 now?','','','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.588+00:00',NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES('8a50c10b3d3b',5,'assistant','﷐two \ud800','','','',245,6,0,0,'2026-11-23T07:26:23.604+00:00','scripted:model',NULL,0,0);
INSERT INTO "chat_messages" VALUES('8052bc26566d',0,'user','The variable a','','file','{}',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.620+00:00',NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES('8052bc26566d',1,'user','What about the printer?','','','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.635+00:00',NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES('8052bc26566d',2,'assistant','The toner is low.','','','',23,9,0,0,'2026-11-23T07:26:23.644+00:00','scripted:model',NULL,0,0);
CREATE TABLE drafts (
	session_id VARCHAR(64) NOT NULL, 
	position INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (session_id), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "drafts" VALUES('8052bc26566d',3,'half an ans');
CREATE TABLE session_snapshots (
	number INTEGER NOT NULL, 
	session_id VARCHAR(64) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	content_json TEXT NOT NULL, 
	message_cutoff_id INTEGER NOT NULL, 
	token_count INTEGER NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (number), 
	FOREIGN KEY(session_id) REFERENCES sessions (id)
);
INSERT INTO "session_snapshots" VALUES(1,'8a50c10b3d3b','summary','{"summaryText": "", "messageRange": {"firstMessageId": "8a50c10b3d3b:0", "lastMessageId": "8a50c10b3d3b:3"}, "compressionTimestamp": "2026-11-23T07:26:23.266+00:00", "compressionType": "manual", "originalTokenCount": 156, "summaryTokenCount": 0, "messagesIncluded": 4, "record": {"id": "2471ed506b9c", "start": 0, "stop": 4, "summary": "", "tokens_before": 156, "tokens_after": 0, "cost": {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "running", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:23.266+00:00", "kind": "summary", "summary_tokens": 0, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": []}}',3,0,'2026-11-23T07:26:23.266+00:00');
INSERT INTO "session_snapshots" VALUES(2,'8a50c10b3d3b','summary','{"summaryText": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "messageRange": {"firstMessageId": "8a50c10b3d3b:0", "lastMessageId": "8a50c10b3d3b:3"}, "compressionTimestamp": "2026-11-23T07:26:23.266+00:00", "compressionType": "manual", "originalTokenCount": 36, "summaryTokenCount": 73, "messagesIncluded": 4, "record": {"id": "2471ed506b9c", "start": 0, "stop": 4, "summary": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "tokens_before": 156, "tokens_after": 193, "cost": {"input_tokens": 344, "output_tokens": 14, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "done", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:23.266+00:00", "kind": "summary", "summary_tokens": 73, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": [["lookup(order: W1)", "", "W1 was shipped", 2], ["calls", "order", "W1", 2], ["conversation", "", "W100", 3]]}}',3,73,'2026-11-23T07:26:23.266+00:00');
INSERT INTO "session_snapshots" VALUES(3,'8a50c10b3d3b','pin','["Never refund over $50."]',0,0,'2026-11-23T07:26:23.574+00:00');
CREATE TABLE sessions (
	id VARCHAR(64) NOT NULL, 
	notebook TEXT NOT NULL, 
	model TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "sessions" VALUES('8a50c10b3d3b','/home/ann/triage.ipynb','scripted:model','2026-11-23T07:26:23.172+00:00');
INSERT INTO "sessions" VALUES('8052bc26566d','/home/bob/other.ipynb','scripted:model','2026-11-23T07:26:23.620+00:00');
CREATE TABLE settings (
	number INTEGER NOT NULL, 
	scope TEXT NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	value_json TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "settings" VALUES(1,'','keep','3','2026-11-23T07:26:23.650+00:00');
INSERT INTO "settings" VALUES(2,'openai','keep','4','2026-11-23T07:26:23.651+00:00');
CREATE INDEX ix_session_snapshots_session_id ON session_snapshots (session_id);
COMMIT;
