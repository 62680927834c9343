--
-- PostgreSQL database dump
--

\restrict de6APyGIydKt1u8wLkgzKHE5AGPQkQ6F6Y94LkKjMwDzQdUsmZqjhv49woeCEIB

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: alembic_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);


--
-- Name: cell_changes; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.cell_changes (
    number bigint NOT NULL,
    owner text NOT NULL,
    session_id text NOT NULL,
    turn integer NOT NULL,
    content_json text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: cell_changes_number_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.cell_changes_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: cell_changes_number_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.cell_changes_number_seq OWNED BY public.cell_changes.number;


--
-- Name: chat_messages; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.chat_messages (
    number bigint NOT NULL,
    owner text NOT NULL,
    session_id text NOT NULL,
    "position" integer NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    tool_id text NOT NULL,
    tool_name text NOT NULL,
    tool_args text NOT NULL,
    input_tokens bigint,
    output_tokens bigint,
    cache_read_tokens bigint,
    cache_write_tokens bigint,
    created_at character varying(32) NOT NULL,
    model text,
    cost double precision,
    is_estimated boolean,
    dropped_tokens bigint,
    cache_loss text,
    tokens integer
);


--
-- Name: chat_messages_number_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.chat_messages_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: chat_messages_number_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.chat_messages_number_seq OWNED BY public.chat_messages.number;


--
-- Name: drafts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.drafts (
    owner text NOT NULL,
    session_id text NOT NULL,
    "position" integer NOT NULL,
    content text NOT NULL
);


--
-- Name: message_words; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.message_words (
    number bigint NOT NULL,
    owner text NOT NULL,
    words tsvector NOT NULL
);


--
-- Name: run_batches; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.run_batches (
    owner text NOT NULL,
    run text NOT NULL,
    batch_id text NOT NULL,
    names_json text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: run_results; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.run_results (
    owner text NOT NULL,
    run text NOT NULL,
    key text NOT NULL,
    number integer NOT NULL,
    is_failed boolean NOT NULL,
    result_json text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: session_snapshots; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.session_snapshots (
    number integer NOT NULL,
    owner text NOT NULL,
    session_id text NOT NULL,
    kind character varying(16) NOT NULL,
    content_json text NOT NULL,
    message_cutoff_id integer NOT NULL,
    token_count bigint NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: session_snapshots_number_seq1; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.session_snapshots_number_seq1
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: session_snapshots_number_seq1; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.session_snapshots_number_seq1 OWNED BY public.session_snapshots.number;


--
-- Name: sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sessions (
    owner text NOT NULL,
    id text NOT NULL,
    notebook text NOT NULL,
    notebook_id text NOT NULL,
    server text NOT NULL,
    model text NOT NULL,
    title text NOT NULL,
    messages integer NOT NULL,
    created_at character varying(32) NOT NULL,
    used_at character varying(32) NOT NULL,
    family text,
    ancestors_json text
);


--
-- Name: settings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.settings (
    number integer NOT NULL,
    owner text NOT NULL,
    scope text NOT NULL,
    name character varying(64) NOT NULL,
    value_json text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: settings_number_seq1; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.settings_number_seq1
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: settings_number_seq1; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.settings_number_seq1 OWNED BY public.settings.number;


--
-- Name: shares; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.shares (
    token_hash character varying(64) NOT NULL,
    owner text NOT NULL,
    session_id text NOT NULL,
    content_json text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: cell_changes number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell_changes ALTER COLUMN number SET DEFAULT nextval('public.cell_changes_number_seq'::regclass);


--
-- Name: chat_messages number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.chat_messages ALTER COLUMN number SET DEFAULT nextval('public.chat_messages_number_seq'::regclass);


--
-- Name: session_snapshots number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_snapshots ALTER COLUMN number SET DEFAULT nextval('public.session_snapshots_number_seq1'::regclass);


--
-- Name: settings number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.settings ALTER COLUMN number SET DEFAULT nextval('public.settings_number_seq1'::regclass);


--
-- Data for Name: alembic_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.alembic_version VALUES ('0005');


--
-- Data for Name: cell_changes; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: chat_messages; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.chat_messages VALUES (1, 'ann', '04aae8f3f7ae', 0, 'user', 'Where is W1?', '', '', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:33.483+00:00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES (2, 'ann', '04aae8f3f7ae', 1, 'assistant', '', 'call_1_0', 'lookup', '{"order": "W1"}', 42, 12, 0, 0, '2026-11-23T07:26:34.164+00:00', 'scripted:model', NULL, false, 0, NULL, NULL);
INSERT INTO public.chat_messages VALUES (3, 'ann', '04aae8f3f7ae', 2, 'tool', 'W1 was shipped', 'call_1_0', 'lookup', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.283+00:00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES (4, 'ann', '04aae8f3f7ae', 3, 'assistant', 'The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. ', '', '', '', 63, 93, 0, 0, '2026-11-23T07:26:34.292+00:00', 'scripted:model', NULL, false, 0, NULL, NULL);
INSERT INTO public.chat_messages VALUES (5, 'ann', '04aae8f3f7ae', 4, 'user', '﷐and \x00 now?', '', '', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.855+00:00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES (6, 'ann', '04aae8f3f7ae', 5, 'assistant', '﷐two \ud800', '', '', '', 245, 6, 0, 0, '2026-11-23T07:26:34.856+00:00', 'scripted:model', NULL, false, 0, NULL, NULL);
INSERT INTO public.chat_messages VALUES (7, 'ann', 'd44b3c8f2a0d', 0, 'user', 'The variable a', '', 'file', '{}', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.859+00:00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES (8, 'ann', 'd44b3c8f2a0d', 1, 'user', 'What about the printer?', '', '', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.911+00:00', NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES (9, 'ann', 'd44b3c8f2a0d', 2, 'assistant', 'The toner is low.', '', '', '', 23, 9, 0, 0, '2026-11-23T07:26:34.928+00:00', 'scripted:model', NULL, false, 0, NULL, NULL);


--
-- Data for Name: drafts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.drafts VALUES ('ann', 'd44b3c8f2a0d', 3, 'half an ans');


--
-- Data for Name: message_words; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.message_words VALUES (1, 'ann', '''owner49915e0d7d4b402e3017d010'':1 ''w1'':4');
INSERT INTO public.message_words VALUES (2, 'ann', '''lookup'':2 ''order'':3 ''owner49915e0d7d4b402e3017d010'':1 ''w1'':4');
INSERT INTO public.message_words VALUES (3, 'ann', '''lookup'':2 ''owner49915e0d7d4b402e3017d010'':1 ''ship'':5 ''w1'':3');
INSERT INTO public.message_words VALUES (4, 'ann', '''ask'':4,13,22,31,40,49,58,67 ''custom'':3,12,21,30,39,48,57,66 ''order'':6,15,24,33,42,51,60,69 ''owner49915e0d7d4b402e3017d010'':1 ''parcel'':10,19,28,37,46,55,64,73 ''w100'':7,16,25,34,43,52,61,70');
INSERT INTO public.message_words VALUES (5, 'ann', '''owner49915e0d7d4b402e3017d010'':1');
INSERT INTO public.message_words VALUES (6, 'ann', '''owner49915e0d7d4b402e3017d010'':1 ''two'':2');
INSERT INTO public.message_words VALUES (7, 'ann', '''file'':2,7 ''owner49915e0d7d4b402e3017d010'':1 ''plain'':11 ''text'':10,15 ''type'':9 ''variabl'':4');
INSERT INTO public.message_words VALUES (8, 'ann', '''owner49915e0d7d4b402e3017d010'':1 ''printer'':5');
INSERT INTO public.message_words VALUES (9, 'ann', '''low'':5 ''owner49915e0d7d4b402e3017d010'':1 ''toner'':3');


--
-- Data for Name: run_batches; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: run_results; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Data for Name: session_snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.session_snapshots VALUES (1, 'ann', '04aae8f3f7ae', 'summary', '{"summaryText": "", "messageRange": {"firstMessageId": "04aae8f3f7ae:0", "lastMessageId": "04aae8f3f7ae:3"}, "compressionTimestamp": "2026-11-23T07:26:34.295+00:00", "compressionType": "manual", "originalTokenCount": 156, "summaryTokenCount": 0, "messagesIncluded": 4, "record": {"id": "cd5d6c6d2077", "start": 0, "stop": 4, "summary": "", "tokens_before": 156, "tokens_after": 0, "cost": {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "running", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:34.295+00:00", "kind": "summary", "summary_tokens": 0, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": []}}', 3, 0, '2026-11-23T07:26:34.295+00:00');
INSERT INTO public.session_snapshots VALUES (2, 'ann', '04aae8f3f7ae', 'summary', '{"summaryText": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "messageRange": {"firstMessageId": "04aae8f3f7ae:0", "lastMessageId": "04aae8f3f7ae:3"}, "compressionTimestamp": "2026-11-23T07:26:34.295+00:00", "compressionType": "manual", "originalTokenCount": 36, "summaryTokenCount": 73, "messagesIncluded": 4, "record": {"id": "cd5d6c6d2077", "start": 0, "stop": 4, "summary": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "tokens_before": 156, "tokens_after": 193, "cost": {"input_tokens": 344, "output_tokens": 14, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "done", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:34.295+00:00", "kind": "summary", "summary_tokens": 73, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": [["lookup(order: W1)", "", "W1 was shipped", 2], ["calls", "order", "W1", 2], ["conversation", "", "W100", 3]]}}', 3, 73, '2026-11-23T07:26:34.295+00:00');
INSERT INTO public.session_snapshots VALUES (3, 'ann', '04aae8f3f7ae', 'pin', '["Never refund over $50."]', 0, 0, '2026-11-23T07:26:34.843+00:00');


--
-- Data for Name: sessions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sessions VALUES ('ann', '04aae8f3f7ae', '/home/ann/triage.ipynb', '', '', 'scripted:model', 'Where is W1?', 6, '2026-11-23T07:26:34.109+00:00', '2026-11-23T07:26:34.856+00:00', NULL, NULL);
INSERT INTO public.sessions VALUES ('ann', 'd44b3c8f2a0d', '/home/bob/other.ipynb', '', '', 'scripted:model', 'What about the printer?', 3, '2026-11-23T07:26:34.891+00:00', '2026-11-23T07:26:34.928+00:00', NULL, NULL);


--
-- Data for Name: settings; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.settings VALUES (1, 'ann', '', 'keep', '3', '2026-11-23T07:26:34.960+00:00');
INSERT INTO public.settings VALUES (2, 'ann', 'openai', 'keep', '4', '2026-11-23T07:26:34.979+00:00');


--
-- Data for Name: shares; Type: TABLE DATA; Schema: public; Owner: -
--



--
-- Name: cell_changes_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.cell_changes_number_seq', 1, false);


--
-- Name: chat_messages_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.chat_messages_number_seq', 9, true);


--
-- Name: session_snapshots_number_seq1; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.session_snapshots_number_seq1', 3, true);


--
-- Name: settings_number_seq1; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.settings_number_seq1', 2, true);


--
-- Name: alembic_version alembic_version_pkc; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);


--
-- Name: message_words message_words_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.message_words
    ADD CONSTRAINT message_words_pkey PRIMARY KEY (number);


--
-- Name: cell_changes pk_cell_changes; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell_changes
    ADD CONSTRAINT pk_cell_changes PRIMARY KEY (number);


--
-- Name: chat_messages pk_chat_messages; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.chat_messages
    ADD CONSTRAINT pk_chat_messages PRIMARY KEY (number);


--
-- Name: drafts pk_drafts; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT pk_drafts PRIMARY KEY (owner, session_id);


--
-- Name: run_batches pk_run_batches; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_batches
    ADD CONSTRAINT pk_run_batches PRIMARY KEY (owner, run, batch_id);


--
-- Name: run_results pk_run_results; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.run_results
    ADD CONSTRAINT pk_run_results PRIMARY KEY (owner, run, key);


--
-- Name: session_snapshots pk_session_snapshots; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_snapshots
    ADD CONSTRAINT pk_session_snapshots PRIMARY KEY (number);


--
-- Name: sessions pk_sessions; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT pk_sessions PRIMARY KEY (owner, id);


--
-- Name: settings pk_settings; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.settings
    ADD CONSTRAINT pk_settings PRIMARY KEY (number);


--
-- Name: shares pk_shares; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.shares
    ADD CONSTRAINT pk_shares PRIMARY KEY (token_hash);


--
-- Name: chat_messages uq_chat_messages; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.chat_messages
    ADD CONSTRAINT uq_chat_messages UNIQUE (owner, session_id, "position");


--
-- Name: ix_cell_changes_owner_session_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_cell_changes_owner_session_id ON public.cell_changes USING btree (owner, session_id);


--
-- Name: ix_message_words; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_message_words ON public.message_words USING gin (words);


--
-- Name: ix_run_results_owner_run_number; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_run_results_owner_run_number ON public.run_results USING btree (owner, run, number);


--
-- Name: ix_session_snapshots_owner_session_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_session_snapshots_owner_session_id ON public.session_snapshots USING btree (owner, session_id);


--
-- Name: ix_sessions_owner_family; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_sessions_owner_family ON public.sessions USING btree (owner, family);


--
-- Name: ix_sessions_owner_used_at; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_sessions_owner_used_at ON public.sessions USING btree (owner, used_at);


--
-- Name: ix_settings_owner; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_settings_owner ON public.settings USING btree (owner);


--
-- Name: ix_shares_owner; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_shares_owner ON public.shares USING btree (owner);


--
-- Name: cell_changes fk_cell_changes; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.cell_changes
    ADD CONSTRAINT fk_cell_changes FOREIGN KEY (owner, session_id) REFERENCES public.sessions(owner, id);


--
-- Name: chat_messages fk_chat_messages; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.chat_messages
    ADD CONSTRAINT fk_chat_messages FOREIGN KEY (owner, session_id) REFERENCES public.sessions(owner, id);


--
-- Name: drafts fk_drafts; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT fk_drafts FOREIGN KEY (owner, session_id) REFERENCES public.sessions(owner, id);


--
-- Name: session_snapshots fk_session_snapshots; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_snapshots
    ADD CONSTRAINT fk_session_snapshots FOREIGN KEY (owner, session_id) REFERENCES public.sessions(owner, id);


--
-- PostgreSQL database dump complete
--

\unrestrict de6APyGIydKt1u8wLkgzKHE5AGPQkQ6F6Y94LkKjMwDzQdUsmZqjhv49woeCEIB

