/** Names with a hash of the content, and gzip: the same content gives the same name and the same bytes on every machine. */

export function fromFileUrl(address: string): string {
  return decodeURIComponent(new URL(".", address).pathname).replace(/\/$/, "");
}

export async function hashed(name: string, content: Uint8Array): Promise<{ name: string; content: Uint8Array }> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new Uint8Array(content)));
  const hash = [...digest.slice(0, 5)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const dot = name.lastIndexOf(".");
  return { name: `${name.slice(0, dot)}-${hash}${name.slice(dot)}`, content };
}

export async function gzipped(content: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([new Uint8Array(content)]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
