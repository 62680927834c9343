--
-- PostgreSQL database dump
--

\restrict aZk2ddNM03rQY1qscopMdG1dpCwPY5KSukaL0dGseHKisV6ZAYDAPwU89zeq0Un

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
-- Name: chat_messages; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.chat_messages (
    session_id text NOT NULL,
    "position" integer NOT NULL,
    role text NOT NULL,
    content text NOT NULL,
    tool_id text NOT NULL,
    tool_name text NOT NULL,
    tool_args text NOT NULL,
    input_tokens integer,
    output_tokens integer,
    cache_read_tokens integer,
    cache_write_tokens integer,
    created_at character varying(32) NOT NULL,
    model text,
    cost double precision,
    is_estimated boolean,
    dropped_tokens integer
);


--
-- Name: drafts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.drafts (
    session_id text NOT NULL,
    "position" integer NOT NULL,
    content text NOT NULL
);


--
-- Name: session_snapshots; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.session_snapshots (
    number integer NOT NULL,
    session_id text NOT NULL,
    kind character varying(16) NOT NULL,
    content_json text NOT NULL,
    message_cutoff_id integer NOT NULL,
    token_count integer NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: session_snapshots_number_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.session_snapshots_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: session_snapshots_number_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.session_snapshots_number_seq OWNED BY public.session_snapshots.number;


--
-- Name: sessions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.sessions (
    id text NOT NULL,
    notebook text NOT NULL,
    model text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: settings; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.settings (
    number integer NOT NULL,
    scope text NOT NULL,
    name character varying(64) NOT NULL,
    value_json text NOT NULL,
    created_at character varying(32) NOT NULL
);


--
-- Name: settings_number_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.settings_number_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: settings_number_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.settings_number_seq OWNED BY public.settings.number;


--
-- Name: session_snapshots number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_snapshots ALTER COLUMN number SET DEFAULT nextval('public.session_snapshots_number_seq'::regclass);


--
-- Name: settings number; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.settings ALTER COLUMN number SET DEFAULT nextval('public.settings_number_seq'::regclass);


--
-- Data for Name: chat_messages; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.chat_messages VALUES ('04aae8f3f7ae', 0, 'user', 'Where is W1?', '', '', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:33.483+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES ('04aae8f3f7ae', 1, 'assistant', '', 'call_1_0', 'lookup', '{"order": "W1"}', 42, 12, 0, 0, '2026-11-23T07:26:34.164+00:00', 'scripted:model', NULL, false, 0);
INSERT INTO public.chat_messages VALUES ('04aae8f3f7ae', 2, 'tool', 'W1 was shipped', 'call_1_0', 'lookup', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.283+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES ('04aae8f3f7ae', 3, 'assistant', 'The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. The customer asks about order W100 and its parcel. ', '', '', '', 63, 93, 0, 0, '2026-11-23T07:26:34.292+00:00', 'scripted:model', NULL, false, 0);
INSERT INTO public.chat_messages VALUES ('04aae8f3f7ae', 4, 'user', '﷐and \x00 now?', '', '', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.855+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES ('04aae8f3f7ae', 5, 'assistant', '﷐two \ud800', '', '', '', 245, 6, 0, 0, '2026-11-23T07:26:34.856+00:00', 'scripted:model', NULL, false, 0);
INSERT INTO public.chat_messages VALUES ('d44b3c8f2a0d', 0, 'user', 'The variable a', '', 'file', '{}', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.859+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES ('d44b3c8f2a0d', 1, 'user', 'What about the printer?', '', '', '', NULL, NULL, NULL, NULL, '2026-11-23T07:26:34.911+00:00', NULL, NULL, NULL, NULL);
INSERT INTO public.chat_messages VALUES ('d44b3c8f2a0d', 2, 'assistant', 'The toner is low.', '', '', '', 23, 9, 0, 0, '2026-11-23T07:26:34.928+00:00', 'scripted:model', NULL, false, 0);


--
-- Data for Name: drafts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.drafts VALUES ('d44b3c8f2a0d', 3, 'half an ans');


--
-- Data for Name: session_snapshots; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.session_snapshots VALUES (1, '04aae8f3f7ae', 'summary', '{"summaryText": "", "messageRange": {"firstMessageId": "04aae8f3f7ae:0", "lastMessageId": "04aae8f3f7ae:3"}, "compressionTimestamp": "2026-11-23T07:26:34.295+00:00", "compressionType": "manual", "originalTokenCount": 156, "summaryTokenCount": 0, "messagesIncluded": 4, "record": {"id": "cd5d6c6d2077", "start": 0, "stop": 4, "summary": "", "tokens_before": 156, "tokens_after": 0, "cost": {"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "running", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:34.295+00:00", "kind": "summary", "summary_tokens": 0, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": []}}', 3, 0, '2026-11-23T07:26:34.295+00:00');
INSERT INTO public.session_snapshots VALUES (2, '04aae8f3f7ae', 'summary', '{"summaryText": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "messageRange": {"firstMessageId": "04aae8f3f7ae:0", "lastMessageId": "04aae8f3f7ae:3"}, "compressionTimestamp": "2026-11-23T07:26:34.295+00:00", "compressionType": "manual", "originalTokenCount": 36, "summaryTokenCount": 73, "messagesIncluded": 4, "record": {"id": "cd5d6c6d2077", "start": 0, "stop": 4, "summary": "<summary>\nW1 was shipped.\n</summary>\n<facts>\nFrom earlier, and not in the summary:\n* Where is W1?\nCalls made: 1 in all\nReturned:\nlookup(order: W1) \u2192 W1 was shipped\nUsed in calls:\norder: W1\nAlso named:\nW100\n</facts>", "tokens_before": 156, "tokens_after": 193, "cost": {"input_tokens": 344, "output_tokens": 14, "cache_read_tokens": 0, "cache_write_tokens": 0, "is_estimated": false, "dropped_tokens": 0, "dollars": 0.0, "priced_tokens": 0, "model": ""}, "model": "scripted:model", "trigger": "manual", "policy": "single-summary", "status": "done", "reason": "", "code": "", "prefix_hash": "bcb76e324e757cfbd3139df7af1c3248e0a4097f0953603c5d112f523d7ae734", "committed_at": 4, "created_at": "2026-11-23T07:26:34.295+00:00", "kind": "summary", "summary_tokens": 73, "replacements": [], "revision": "", "messages": 4, "note": "", "fields": null, "facts": [["lookup(order: W1)", "", "W1 was shipped", 2], ["calls", "order", "W1", 2], ["conversation", "", "W100", 3]]}}', 3, 73, '2026-11-23T07:26:34.295+00:00');
INSERT INTO public.session_snapshots VALUES (3, '04aae8f3f7ae', 'pin', '["Never refund over $50."]', 0, 0, '2026-11-23T07:26:34.843+00:00');


--
-- Data for Name: sessions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.sessions VALUES ('04aae8f3f7ae', '/home/ann/triage.ipynb', 'scripted:model', '2026-11-23T07:26:34.109+00:00');
INSERT INTO public.sessions VALUES ('d44b3c8f2a0d', '/home/bob/other.ipynb', 'scripted:model', '2026-11-23T07:26:34.891+00:00');


--
-- Data for Name: settings; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.settings VALUES (1, '', 'keep', '3', '2026-11-23T07:26:34.960+00:00');
INSERT INTO public.settings VALUES (2, 'openai', 'keep', '4', '2026-11-23T07:26:34.979+00:00');


--
-- Name: session_snapshots_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.session_snapshots_number_seq', 3, true);


--
-- Name: settings_number_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.settings_number_seq', 2, true);


--
-- Name: chat_messages chat_messages_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.chat_messages
    ADD CONSTRAINT chat_messages_pkey PRIMARY KEY (session_id, "position");


--
-- Name: drafts drafts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT drafts_pkey PRIMARY KEY (session_id);


--
-- Name: session_snapshots session_snapshots_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_snapshots
    ADD CONSTRAINT session_snapshots_pkey PRIMARY KEY (number);


--
-- Name: sessions sessions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (id);


--
-- Name: settings settings_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.settings
    ADD CONSTRAINT settings_pkey PRIMARY KEY (number);


--
-- Name: ix_session_snapshots_session_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_session_snapshots_session_id ON public.session_snapshots USING btree (session_id);


--
-- Name: chat_messages chat_messages_session_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.chat_messages
    ADD CONSTRAINT chat_messages_session_id_fkey FOREIGN KEY (session_id) REFERENCES public.sessions(id);


--
-- Name: drafts drafts_session_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.drafts
    ADD CONSTRAINT drafts_session_id_fkey FOREIGN KEY (session_id) REFERENCES public.sessions(id);


--
-- Name: session_snapshots session_snapshots_session_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.session_snapshots
    ADD CONSTRAINT session_snapshots_session_id_fkey FOREIGN KEY (session_id) REFERENCES public.sessions(id);


--
-- PostgreSQL database dump complete
--

\unrestrict aZk2ddNM03rQY1qscopMdG1dpCwPY5KSukaL0dGseHKisV6ZAYDAPwU89zeq0Un

