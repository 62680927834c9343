// Bundles src/ into labextension/, which the wheel installs as a folder of JupyterLab's
// extensions. `npm run build` of the panel's frontend runs it.
//
// JupyterLab's own modules come from the page. It asks for a container of webpack's
// module federation, `window._JUPYTERLAB[name] = { init, get }`, which is written here by
// hand: it is one file for all versions of JupyterLab 4 and needs no other build tool.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import * as esbuild from "../panel/frontend/node_modules/esbuild/lib/main.js";

const NAME = "jupyter-nbchat";
const here = (name) => new URL(name, import.meta.url);
const text = (name) => readFileSync(here(name), "utf8");

// As tests/jupyter/test_lab.py computes it.
function digest() {
  const modules = readdirSync(here("src")).filter((name) => name.endsWith(".js"));
  const files = [...modules.sort().map((name) => `src/${name}`), "build.mjs", "schema/plugin.json", "style.css"];
  const hash = createHash("sha256");
  for (const name of files) hash.update(readFileSync(here(name)));
  return hash.digest("hex");
}

const fromPage = {
  name: "from-page",
  setup(build) {
    const namespace = "page";
    build.onResolve({ filter: /^@(jupyterlab|lumino)\// }, ({ path }) => ({ path, namespace }));
    build.onLoad({ filter: /./, namespace }, ({ path }) => ({ contents: `module.exports = shared["${path}"]` }));
  },
};

async function bundled(entryPoint, options) {
  const { metafile, outputFiles } = await esbuild.build({
    absWorkingDir: here(".").pathname,
    entryPoints: [entryPoint],
    bundle: true,
    minify: true,
    charset: "utf8",
    legalComments: "none",
    metafile: true,
    write: false,
    ...options,
  });
  const names = Object.keys(metafile.inputs).filter((each) => each.startsWith("page:"));
  return { code: outputFiles[0].text, names: names.map((each) => each.slice("page:".length)) };
}

const { code, names } = await bundled("src/index.js", { format: "cjs", target: "es2022", plugins: [fromPage] });
const style = await bundled("style.css", {});

// Several versions of a module may be offered; the application's own is the one in use.
const container = `// npm run build made this from src/ (sha256 ${digest()})
(() => {
const names = ${JSON.stringify(names)}, shared = {};
let offered;
const own = (versions) => Object.values(versions).find(({ from }) => /application-top|jupyter-notebook/.test(from)) ?? Object.values(versions)[0];
const load = (module, exports) => {
${code}};
const addStyle = () => document.head.append(Object.assign(document.createElement("style"), { textContent: ${JSON.stringify(style.code)} }));
const get = async (path) => {
  if (path === "./style") return () => (addStyle(), {});
  for (const name of names) shared[name] = (await own(offered[name]).get())();
  return () => {
    const module = { exports: {} };
    load(module, module.exports);
    return module.exports;
  };
};
(window._JUPYTERLAB ??= {})["${NAME}"] = { init: (scope) => { offered = scope; }, get };
})();
`;

const hash = createHash("sha256").update(container).digest("hex").slice(0, 12);
const file = `static/extension.${hash}.js`; // by its name a browser knows a new one
const about = {
  name: NAME,
  version: text("../../__init__.py").match(/__version__ = "(.*)"/)[1],
  description: "A chat about the notebook, beside it.",
  license: "MIT",
  jupyterlab: {
    extension: true,
    schemaDir: "schema",
    _build: { load: file, extension: "./extension", style: "./style" },
  },
};
const install = {
  packageManager: "python",
  packageName: NAME,
  uninstallInstructions: `pip uninstall ${NAME}`,
};

rmSync(here("labextension"), { recursive: true, force: true });
for (const folder of ["static", `schemas/${NAME}`]) mkdirSync(here(`labextension/${folder}`), { recursive: true });
const write = (name, content) => writeFileSync(here(`labextension/${name}`), content);
write(file, container);
write("package.json", `${JSON.stringify(about, null, 2)}\n`);
write("install.json", `${JSON.stringify(install)}\n`);
write(`schemas/${NAME}/plugin.json`, text("schema/plugin.json"));
