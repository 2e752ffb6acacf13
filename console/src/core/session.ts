/** Who is looking, and what their key may do. Buttons for what it may not do are absent; the node refuses it in any case. */
import { computed, signal } from "@preact/signals";
import { call, Problem, unauthenticated } from "../api/call.ts";
import type { SessionView } from "../api/types.ts";

const EVERYBODY = { name: "", key_id: null, scopes: ["admin"] };
const OPEN: SessionView = { authentication: false, identity: EVERYBODY, node: "", release: "" };

export const session = signal<SessionView | null>(null);
export const loginNeeded = signal(false);

export const scopes = computed(() => session.value?.identity?.scopes ?? []);

/** A scope is a verb, or a verb and a name in which `*` stands for anything. */
export function allows(given: string[], verb: string, name?: string): boolean {
  if (given.includes("admin")) return true;
  if (name === undefined) return given.includes(verb);
  return given.some((one) => one.startsWith(`${verb}:`) && matches(one.slice(verb.length + 1), name));
}

function matches(pattern: string, name: string): boolean {
  const expression = pattern.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join(".*");
  return new RegExp(`^${expression}$`, "s").test(name);
}

export function may(verb: string, name?: string): boolean {
  return allows(scopes.value, verb, name);
}

export async function loadSession(): Promise<void> {
  try {
    const found = await call("GET /console/session");
    loginNeeded.value = found.authentication && !found.identity;
    session.value = loginNeeded.value ? null : found;
  } catch (failure) {
    if (!(failure instanceof Problem)) throw failure;
    if (failure.status !== 404) throw failure;
    session.value = OPEN;
  }
}

export async function login(key: string): Promise<void> {
  await call("POST /console/login", { body: { key } });
  await loadSession();
}

export async function logout(): Promise<void> {
  await call("POST /console/logout");
  session.value = null;
  loginNeeded.value = true;
}

unauthenticated.happened = () => {
  if (session.value?.authentication !== false) loginNeeded.value = true;
};
