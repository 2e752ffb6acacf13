/**
 * Builds the console into src/meantime/console/static: one script, one style sheet and an icon, each with a hash of its content
 * in its name, a page that names them by relative addresses, and a .gz beside each file that gets smaller.
 * The old folder is replaced only when all is written, so that a failed build leaves what was there.
 */
import * as esbuild from "esbuild";
import { fromFileUrl, gzipped, hashed } from "./packing.ts";

const HERE = fromFileUrl(import.meta.url);
const TARGET = Deno.args[0] ?? `${HERE}/../src/meantime/console/static`;
const BUDGET = 120 * 1024;

interface Asset {
  name: string;
  content: Uint8Array;
}

async function bundled(): Promise<Asset[]> {
  const result = await esbuild.build({
    absWorkingDir: HERE,
    entryPoints: ["src/main.tsx", "src/style/main.css"],
    outdir: "out",
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: ["es2022", "chrome110", "firefox115", "safari16"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    logLevel: "warning",
  });
  return await Promise.all(
    result.outputFiles.map((file) => hashed(file.path.endsWith(".css") ? "console.css" : "console.js", file.contents)),
  );
}

function page(template: string, assets: Asset[]): Asset {
  const named = (ending: string) => assets.find((one) => one.name.endsWith(ending))?.name ?? "";
  const text = template
    .replace("{{script}}", `assets/${named(".js")}`)
    .replace("{{style}}", `assets/${named(".css")}`)
    .replace("{{icon}}", `assets/${named(".svg")}`);
  return { name: "index.html", content: new TextEncoder().encode(text) };
}

async function write(folder: string, assets: Asset[]): Promise<number> {
  let total = 0;
  await Deno.mkdir(folder, { recursive: true });
  for (const { name, content } of assets) {
    await Deno.writeFile(`${folder}/${name}`, content);
    const small = await gzipped(content);
    total += Math.min(small.length, content.length);
    if (small.length < content.length) await Deno.writeFile(`${folder}/${name}.gz`, small);
  }
  return total;
}

async function main(): Promise<void> {
  const icon = await hashed("icon.svg", await Deno.readFile(`${HERE}/src/icon.svg`));
  const assets = [...await bundled(), icon];
  const fresh = `${TARGET}.new`;
  await Deno.remove(fresh, { recursive: true }).catch(() => undefined);
  const total = await write(`${fresh}/assets`, assets) +
    await write(fresh, [page(await Deno.readTextFile(`${HERE}/src/index.html`), assets)]);
  await Deno.remove(TARGET, { recursive: true }).catch(() => undefined);
  await Deno.rename(fresh, TARGET);
  console.log(`The console is built: ${(total / 1024).toFixed(1)} KB gzipped`);
  if (total > BUDGET) throw new Error(`that is more than ${BUDGET / 1024} KB`);
}

try {
  await main();
} finally {
  await esbuild.stop();
}
