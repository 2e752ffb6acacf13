/** A key becomes a session: the cookie that the node sets cannot be read by scripts, and the key is not kept here. */
import { useSignal } from "@preact/signals";
import { Problem } from "../api/call.ts";
import { login } from "../core/session.ts";
import { textOf } from "../parts/basics.tsx";
import { Logo } from "./logo.tsx";

export function Login() {
  const key = useSignal("");
  const problem = useSignal<string | null>(null);
  const busy = useSignal(false);
  const onSubmit = async (event: Event) => {
    event.preventDefault();
    busy.value = true;
    problem.value = null;
    try {
      await login(key.value.trim());
      key.value = "";
    } catch (failure) {
      const refused = failure instanceof Problem && failure.status === 401;
      problem.value = refused ? "This key is not known, or it was revoked." : String((failure as Error).message);
    }
    busy.value = false;
  };
  return (
    <main class="login">
      <form class="panel stack" onSubmit={onSubmit}>
        <div class="brand">
          <Logo /> Meantime
        </div>
        <h1>Log in with an API key</h1>
        <label class="field">
          <span>Key</span>
          <input
            type="password"
            autocomplete="current-password"
            required
            value={key.value}
            onInput={(e) => (key.value = textOf(e))}
          />
        </label>
        {problem.value && <div class="notice bad" role="alert">{problem.value}</div>}
        <button type="submit" class="primary" disabled={busy.value}>Log in</button>
        <p class="muted small">
          A key for looking: <code>meantime keys add me --scope look</code>
        </p>
      </form>
    </main>
  );
}
