// Bundles src/ into bundle.js, the one module that a widget can load.
// `npm run watch` writes it at each change; with ANYWIDGET_HMR=1 open panels reload it.

import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import * as esbuild from "esbuild";

const here = (name) => new URL(name, import.meta.url);

// As tests/jupyter/panel/test_bundle.py computes it.
function digest() {
  const modules = readdirSync(here("src")).filter((name) => name.endsWith(".js"));
  const files = [...modules.sort().map((name) => `src/${name}`), "package-lock.json"];
  const hash = createHash("sha256");
  for (const name of [...files, "../protocol.json"]) hash.update(readFileSync(here(name)));
  return hash.digest("hex");
}

const options = () => ({
  absWorkingDir: here(".").pathname,
  entryPoints: ["src/panel.js"],
  outfile: "bundle.js",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  charset: "utf8",
  banner: { js: `// npm run build made this from src/ (sha256 ${digest()})` },
});

if (process.argv.includes("--watch")) await (await esbuild.context(options())).watch();
else await esbuild.build(options());
