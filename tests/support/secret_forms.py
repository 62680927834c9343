"""Texts with a secret in many forms: tables, headers, addresses, hashes, cloud keys.

Made when they are imported, so that no key stands in a file. The last part of each is
what must not be left; None where all of it may be.
"""

import base64
import random
import string

r = random.Random(7)
A = string.ascii_letters + string.digits


def k(n, a=A):
    return "".join(r.choice(a) for _ in range(n))


hexs = "0123456789abcdef"
S = "hunter2!x"
P = "Tr0ub4dor"
FORMS = [
    # tables
    ("csv", f"user,password\nann,{P}\nbob,other1\n", P),
    ("csv quoted", f'"user","password","age"\n"ann","{P}","3"\n', P),
    ("csv words", "user,password\nann,correcthorse\n", "correcthorse"),
    ("csv third row", f"id,api_key\n1,aaa111bbb\n2,{P}\n", P),
    ("csv semicolon", f"user;passwort\nann;{P}\n", P),
    ("tsv", f"user\tpassword\nann\t{P}\n", P),
    ("tsv crlf", f"user\tpassword\r\nann\t{P}\r\n", P),
    ("markdown", f"| user | password |\n|---|---|\n| ann | {P} |\n", P),
    ("markdown bold", f"| **User** | **Password** |\n|:--|--:|\n| ann | {P} |\n", P),
    ("markdown no edges", f"user | client_secret\n--- | ---\nann | {P}\n", P),
    ("markdown kv", f"| setting | value |\n|---|---|\n| db_password | {P} |\n", P),
    ("markdown kv code", f"| `DB_PASSWORD` | `{P}` |\n", P),
    ("csv kv", f"name,value\ndb_user,ann\ndb_password,{P}\n", P),
    ("tsv kv", f"db_password\t{P}\n", P),
    (
        "frame kv",
        f"          name     value\n0      db_user       ann\n1  db_password  {P}\n",
        P,
    ),
    ("frame kv 2", f"0  db_password  {P}\n", P),
    ("series", f"user            ann\ndb_password     {P}\ndtype: object", P),
    ("frame", f"  user   password\n0  ann  {P}\n1  bob     other1\n", P),
    ("frame left", f"user  password   age\nann   {P}  3\n", P),
    ("psql", f" user | password\n------+-----------\n ann  | {P}\n", P),
    (
        "mysql box",
        f"+------+-----------+\n| user | password  |\n+------+-----------+\n| ann  | {P} |\n+------+-----------+\n",
        P,
    ),
    ("mysql vertical", f"*** 1. row ***\n    user: ann\npassword: {P}\n", P),
    ("html table", f"<tr><th>Password</th><td>{P}</td></tr>", P),
    ("html columns", f"<tr><td>db_password</td><td>{P}</td></tr>", P),
    # prose marks
    ("bold", f"**Password:** {P}", P),
    ("bold outside", f"**Password**: {P}", P),
    ("bold code", f"**API key:** `{P}99`", P),
    ("italic", f"_password_: {P}", P),
    ("list", f"- Password — {P}", P),
    ("code name", f"`password`: `{P}`", P),
    ("arrow", f"password -> {P}", P),
    # headers
    ("bearer", f"Authorization: Bearer {k(20)}a1", None),
    (
        "proxy",
        f"Proxy-Authorization: Basic {base64.b64encode(b'ann:hunter2!').decode()}",
        None,
    ),
    ("x-auth", f"X-Auth-Token: {P}77", P),
    ("private token", f"PRIVATE-TOKEN: {P}77", P),
    ("vault", f"X-Vault-Token: {P}77", P),
    ("apim", f"Ocp-Apim-Subscription-Key: {k(32, hexs)}", None),
    ("x-api", f"x-api-key: {P}77", P),
    ("x goog", f"X-Goog-Api-Key: {P}77", P),
    ("x amz", f"X-Amz-Security-Token: {P}{k(40)}", P),
    ("csrf", f"X-CSRF-Token: {P}77", P),
    ("apikey", f"apikey: {P}77", P),
    (
        "h2",
        f"> authorization: Basic {base64.b64encode(b'ann:hunter2!').decode()}",
        None,
    ),
    ("digest", f'Authorization: Digest username="a", response="{k(32, hexs)}"', None),
    ("functions", f"x-functions-key: {k(40)}==", None),
    ("json header", f'{{"X-Auth-Token": "{P}77"}}', P),
    # connection strings
    ("login bare", f"ann:{P}@db.example.com/orders", P),
    ("login bare port", f"dsn = ann:{P}@localhost:5432/orders", P),
    ("mongo", f"mongodb+srv://ann:{P}@c0.mongodb.net/x", P),
    ("ado", f"Server=db;Database=x;User Id=ann;Password={P};", P),
    ("ado pwd", f"Server=db;Uid=ann;Pwd={P};Encrypt=yes", P),
    ("odbc", f"Driver={{ODBC}};UID=ann;PWD={P}", P),
    ("libpq", f"host=db user=ann password={P} dbname=x", P),
    ("libpq quoted", f"host=db password='{P}'", P),
    (
        "azure",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={k(86)}==;EndpointSuffix=core",
        None,
    ),
    (
        "servicebus",
        f"Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey={k(43)}=",
        None,
    ),
    ("redis", f"redis://:{P}@cache:6379/0", P),
    ("amqp", f"amqps://ann:{P}@mq/vh", P),
    ("jdbc", f"jdbc:postgresql://db/x?user=ann&password={P}", P),
    ("jdbc oracle", f"jdbc:oracle:thin:ann/{P}@db:1521/x", P),
    ("sql user", f"CREATE USER ann IDENTIFIED BY '{P}';", P),
    ("sql role", f"ALTER ROLE ann WITH PASSWORD '{P}';", P),
    ("pgpass", f"db.example.com:5432:orders:ann:{P}", P),
    ("netrc", f"machine api.x.org login ann password {P}", P),
    (
        "netrc words",
        "machine api.x.org login ann password correcthorse",
        "correcthorse",
    ),
    ("proxy url", f"http_proxy=http://ann:{P}@proxy:3128", P),
    ("smtp", f"smtp://ann%40x.org:{P}@mail:587", P),
    # hashes
    ("shadow", f"ann:$6$saltsalt${k(86)}:19000:0:99999:7:::", "$6$saltsalt"),
    ("shadow y", f"ann:$y$j9T$abcdefgh${k(43)}:19000", "$y$j9T"),
    ("htpasswd", "ann:$apr1$" + k(8) + "$" + k(22), "$apr1$"),
    ("htpasswd bcrypt", f"ann:$2y$05${k(53)}", "$2y$"),
    ("htpasswd sha", "ann:{SHA}" + k(27) + "=", "{SHA}"),
    ("argon", f"$argon2id$v=19$m=65536,t=3,p=4${k(22)}${k(43)}", "argon2id$v"),
    # cloud keys by form
    ("aws", "AKIA" + k(16, string.ascii_uppercase + string.digits), None),
    (
        "aws secret csv",
        f"Access key ID,Secret access key\nAKIA{k(16, string.ascii_uppercase + '234567')},{k(40)}\n",
        None,
    ),
    ("bedrock", "ABSK" + k(120), None),
    ("gcp key", "AIza" + k(35), None),
    ("gcp refresh", "1//0" + k(40), None),
    ("gcp oauth", "ya29." + k(40), None),
    ("azure client", k(3) + "8Q~" + k(34), None),
    ("openai", "sk-proj-" + k(40), None),
    ("anthropic", "sk-ant-api03-" + k(40), None),
    ("xai", "xai-" + k(60), None),
    ("perplexity", "pplx-" + k(40), None),
    ("groq", "gsk_" + k(50), None),
    ("hf", "hf_" + k(34), None),
    ("replicate", "r8_" + k(37), None),
    ("databricks", "dapi" + k(32, hexs), None),
    ("gitlab", "glpat-" + k(20), None),
    ("gitlab runner", "glrt-" + k(20), None),
    ("github", "ghp_" + k(36), None),
    ("github fine", "github_pat_" + k(60), None),
    ("atlassian", "ATATT3" + k(60), None),
    ("bitbucket", "ATBB" + k(32), None),
    ("slack", "xoxb-" + "123456789012-" + k(24), None),
    ("slack hook", "https://hooks.slack.com/services/T000/B000/" + k(24), None),
    ("discord", "MTA" + k(21) + "." + k(6) + "." + k(38), None),
    ("telegram", "110201543:AA" + k(33), None),
    ("twilio", "SK" + k(32, hexs), None),
    ("sendgrid", "SG." + k(22) + "." + k(43), None),
    ("mailgun", "key-" + k(32, hexs), None),
    ("mailchimp", k(32, hexs) + "-us12", None),
    ("sendinblue", "xkeysib-" + k(64, hexs), None),
    ("stripe", "sk_live_" + k(24), None),
    ("square", "sq0atp-" + k(22), None),
    ("shopify", "shpat_" + k(32, hexs), None),
    ("npm", "npm_" + k(36), None),
    ("pypi", "pypi-" + k(60), None),
    ("rubygems", "rubygems_" + k(48, hexs), None),
    ("docker", "dckr_pat_" + k(27), None),
    ("do", "dop_v1_" + k(64, hexs), None),
    ("doo", "doo_v1_" + k(64, hexs), None),
    ("linear", "lin_api_" + k(40), None),
    ("notion", "ntn_" + k(46), None),
    ("airtable", "pat" + k(14) + "." + k(64, hexs), None),
    ("figma", "figd_" + k(40), None),
    ("grafana", "glsa_" + k(32) + "_" + k(8, hexs), None),
    ("newrelic", "NRAK-" + k(27, string.ascii_uppercase + string.digits), None),
    ("postman", "PMAK-" + k(24, hexs) + "-" + k(34, hexs), None),
    ("planetscale", "pscale_tkn_" + k(43), None),
    ("sentry", "sntrys_" + k(60), None),
    ("supabase", "sbp_" + k(40, hexs), None),
    ("tailscale", "tskey-auth-" + k(12) + "-" + k(32), None),
    ("terraform", k(14) + ".atlasv1." + k(64), None),
    ("vault", "hvs." + k(90), None),
    ("vault batch", "hvb." + k(90), None),
    ("doppler", "dp.pt." + k(43), None),
    ("pulumi", "pul-" + k(40, hexs), None),
    ("heroku", "HRKU-AA" + k(58), None),
    ("langsmith", "lsv2_pt_" + k(32, hexs) + "_" + k(10, hexs), None),
    ("age", "AGE-SECRET-KEY-1" + k(58, string.ascii_uppercase + string.digits), None),
    (
        "pem",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n"
        + k(64)
        + "\n-----END OPENSSH PRIVATE KEY-----",
        None,
    ),
    (
        "putty",
        "PuTTY-User-Key-File-2: ssh-rsa\nEncryption: none\nPrivate-Lines: 1\n"
        + k(64)
        + "\nPrivate-MAC: "
        + k(40, hexs),
        None,
    ),
    ("jwt", "eyJ" + k(20) + "." + k(40) + "." + k(30), None),
]
