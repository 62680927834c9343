BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0005');
CREATE TABLE cell_changes (
	number INTEGER NOT NULL, 
	owner VARCHAR(128) NOT NULL, 
	session_id VARCHAR(128) NOT NULL, 
	turn INTEGER NOT NULL, 
	content_json TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_cell_changes PRIMARY KEY (number), 
	CONSTRAINT fk_cell_changes FOREIGN KEY(owner, session_id) REFERENCES sessions (owner, id)
);
CREATE TABLE chat_messages (
	number INTEGER NOT NULL, 
	owner VARCHAR(128) NOT NULL, 
	session_id VARCHAR(128) NOT NULL, 
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
	dropped_tokens INTEGER, cache_loss TEXT, tokens INTEGER, 
	CONSTRAINT pk_chat_messages PRIMARY KEY (number), 
	CONSTRAINT fk_chat_messages FOREIGN KEY(owner, session_id) REFERENCES sessions (owner, id), 
	CONSTRAINT uq_chat_messages UNIQUE (owner, session_id, position)
);
INSERT INTO "chat_messages" VALUES(1,'ann','8052bc26566d',0,'user','The variable a','','file','{}',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.620+00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES(2,'ann','8052bc26566d',1,'user','What about the printer?','','','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.635+00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES(3,'ann','8052bc26566d',2,'assistant','The toner is low.','','','',23,9,0,0,'2026-11-23T07:26:23.644+00:00','scripted:model',NULL,0,0,NULL,NULL);
INSERT INTO "chat_messages" VALUES(4,'ann','8a50c10b3d3b',0,'user','Where is W1?','','','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:22.760+00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES(5,'ann','8a50c10b3d3b',1,'assistant','','call_1_0','lookup','{"order": "W1"}',42,12,0,0,'2026-11-23T07:26:23.205+00:00','scripted:model',NULL,0,0,NULL,NULL);
INSERT INTO "chat_messages" VALUES(6,'ann','8a50c10b3d3b',2,'tool','W1 was shipped','call_1_0','lookup','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.230+00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES(7,'ann','8a50c10b3d3b',3,'assistant','The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. ','','','',63,93,0,0,'2026-11-23T07:26:23.248+00:00','scripted:model',NULL,0,0,NULL,NULL);
INSERT INTO "chat_messages" VALUES(8,'ann','8a50c10b3d3b',4,'user','﷐and \x00 now?','','','',NULL,NULL,NULL,NULL,'2026-11-23T07:26:23.588+00:00',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "chat_messages" VALUES(9,'ann','8a50c10b3d3b',5,'assistant','﷐two \ud800','','','',245,6,0,0,'2026-11-23T07:26:23.604+00:00','scripted:model',NULL,0,0,NULL,NULL);
CREATE TABLE drafts (
	owner VARCHAR(128) NOT NULL, 
	session_id VARCHAR(128) NOT NULL, 
	position INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	CONSTRAINT pk_drafts PRIMARY KEY (owner, session_id), 
	CONSTRAINT fk_drafts FOREIGN KEY(owner, session_id) REFERENCES sessions (owner, id)
);
INSERT INTO "drafts" VALUES('ann','8052bc26566d',3,'half an ans');
CREATE TABLE run_batches (
	owner VARCHAR(128) NOT NULL, 
	run VARCHAR(128) NOT NULL, 
	batch_id VARCHAR(128) NOT NULL, 
	names_json TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_run_batches PRIMARY KEY (owner, run, batch_id)
);
CREATE TABLE run_results (
	owner VARCHAR(128) NOT NULL, 
	run VARCHAR(128) NOT NULL, 
	"key" VARCHAR(128) NOT NULL, 
	number INTEGER NOT NULL, 
	is_failed BOOLEAN NOT NULL, 
	result_json TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_run_results PRIMARY KEY (owner, run, "key")
);
CREATE TABLE session_snapshots (
	number INTEGER NOT NULL, 
	owner VARCHAR(128) NOT NULL, 
	session_id VARCHAR(128) NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	content_json TEXT NOT NULL, 
	message_cutoff_id INTEGER NOT NULL, 
	token_count INTEGER NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_session_snapshots PRIMARY KEY (number), 
	CONSTRAINT fk_session_snapshots FOREIGN KEY(owner, session_id) REFERENCES sessions (owner, id)
);
INSERT INTO "session_snapshots" VALUES(1,'ann','8a50c10b3d3b','summary','{"summaryText": "", "messageRange": {"firstMessageId": "8a50c10b3d3b:0", "lastMessageId": "8a50c10b3d3b:3"}, "compressionTimestamp": "2026-11-23T07:26:23.266+00:00", "compressionType": "manual", "originalTokenCount": 156, "summaryTokenCount": 0, "messagesIncluded": 4, "record": {"id": "2471ed506b9c", "start": 0, "stop": 4, "summary": "", "tokens_before": 156, "tokens_after": 0, "cost": {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "running", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:23.266+00:00", "kind": "summary", "summary_tokens": 0, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": []}}',3,0,'2026-11-23T07:26:23.266+00:00');
INSERT INTO "session_snapshots" VALUES(2,'ann','8a50c10b3d3b','summary','{"summaryText": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "messageRange": {"firstMessageId": "8a50c10b3d3b:0", "lastMessageId": "8a50c10b3d3b:3"}, "compressionTimestamp": "2026-11-23T07:26:23.266+00:00", "compressionType": "manual", "originalTokenCount": 36, "summaryTokenCount": 73, "messagesIncluded": 4, "record": {"id": "2471ed506b9c", "start": 0, "stop": 4, "summary": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "tokens_before": 156, "tokens_after": 193, "cost": {"input_tokens": 344, "output_tokens": 14, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "done", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:23.266+00:00", "kind": "summary", "summary_tokens": 73, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": [["lookup(order: W1)", "", "W1 was shipped", 2], ["calls", "order", "W1", 2], ["conversation", "", "W100", 3]]}}',3,73,'2026-11-23T07:26:23.266+00:00');
INSERT INTO "session_snapshots" VALUES(3,'ann','8a50c10b3d3b','pin','["Never refund over $50."]',0,0,'2026-11-23T07:26:23.574+00:00');
CREATE TABLE sessions (
	owner VARCHAR(128) NOT NULL, 
	id VARCHAR(128) NOT NULL, 
	notebook TEXT NOT NULL, 
	notebook_id TEXT NOT NULL, 
	server TEXT NOT NULL, 
	model TEXT NOT NULL, 
	title TEXT NOT NULL, 
	messages INTEGER NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	used_at VARCHAR(32) NOT NULL, family VARCHAR(128), ancestors_json TEXT, 
	CONSTRAINT pk_sessions PRIMARY KEY (owner, id)
);
INSERT INTO "sessions" VALUES('ann','8a50c10b3d3b','/home/ann/triage.ipynb','','','scripted:model','Where is W1?',6,'2026-11-23T07:26:23.172+00:00','2026-11-23T07:26:23.604+00:00',NULL,NULL);
INSERT INTO "sessions" VALUES('ann','8052bc26566d','/home/bob/other.ipynb','','','scripted:model','What about the printer?',3,'2026-11-23T07:26:23.620+00:00','2026-11-23T07:26:23.644+00:00',NULL,NULL);
CREATE TABLE settings (
	number INTEGER NOT NULL, 
	owner VARCHAR(128) NOT NULL, 
	scope TEXT NOT NULL, 
	name VARCHAR(64) NOT NULL, 
	value_json TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_settings PRIMARY KEY (number)
);
INSERT INTO "settings" VALUES(1,'ann','','keep','3','2026-11-23T07:26:23.650+00:00');
INSERT INTO "settings" VALUES(2,'ann','openai','keep','4','2026-11-23T07:26:23.651+00:00');
CREATE TABLE shares (
	token_hash VARCHAR(64) NOT NULL, 
	owner VARCHAR(128) NOT NULL, 
	session_id VARCHAR(128) NOT NULL, 
	content_json TEXT NOT NULL, 
	created_at VARCHAR(32) NOT NULL, 
	CONSTRAINT pk_shares PRIMARY KEY (token_hash)
);
CREATE INDEX ix_sessions_owner_used_at ON sessions (owner, used_at);
CREATE INDEX ix_settings_owner ON settings (owner);
CREATE INDEX ix_run_results_owner_run_number ON run_results (owner, run, number);
CREATE INDEX ix_shares_owner ON shares (owner);
CREATE INDEX ix_session_snapshots_owner_session_id ON session_snapshots (owner, session_id);
CREATE INDEX ix_sessions_owner_family ON sessions (owner, family);
CREATE INDEX ix_cell_changes_owner_session_id ON cell_changes (owner, session_id);
CREATE VIRTUAL TABLE message_words USING fts5(text, content="", tokenize="porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'");
INSERT INTO message_words (rowid, text) VALUES(1,'owner49915e0d7d4b402e3017d010 file The variable a [a file of type text/plain, which is not text]');
INSERT INTO message_words (rowid, text) VALUES(2,'owner49915e0d7d4b402e3017d010 What about the printer?');
INSERT INTO message_words (rowid, text) VALUES(3,'owner49915e0d7d4b402e3017d010 The toner is low.');
INSERT INTO message_words (rowid, text) VALUES(4,'owner49915e0d7d4b402e3017d010 Where is W1?');
INSERT INTO message_words (rowid, text) VALUES(5,'owner49915e0d7d4b402e3017d010 lookup {"order": "W1"}');
INSERT INTO message_words (rowid, text) VALUES(6,'owner49915e0d7d4b402e3017d010 lookup W1 was shipped');
INSERT INTO message_words (rowid, text) VALUES(7,'owner49915e0d7d4b402e3017d010 The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel.');
INSERT INTO message_words (rowid, text) VALUES(8,'owner49915e0d7d4b402e3017d010 and now?');
INSERT INTO message_words (rowid, text) VALUES(9,'owner49915e0d7d4b402e3017d010 two ?');
COMMIT;
