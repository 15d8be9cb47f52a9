// Why a connection did not open, or a file of this module was not loaded. A browser hides it from the
// page: what can be asked is asked with ordinary requests, and what a Content-Security-Policy blocks is
// reported by an event of the document.

import { ParleyError, refusal } from "./errors.js";

/** Characters of an address in a message: a bundler may have put the whole file into one. */
const longestName = 200;

/** Notes what the page's Content-Security-Policy blocks, from now until `end`. */
export class PolicyWatch {
  #document;
  #violations = [];
  #note = (event) => this.#violations.push(event);

  /** @param {EventTarget | null | undefined} document null: none */
  constructor(document) {
    this.#document = document;
    document?.addEventListener("securitypolicyviolation", this.#note);
  }

  /** The error of an address that was blocked; null: none was. Only one that is enforced counts. */
  error(address) {
    const { origin, protocol, host } = new URL(address);
    // The event names an address of another origin by its origin alone.
    const found = this.#violations.find(({ blockedURI, disposition }) => disposition !== "report"
      && (blockedURI.startsWith(origin === "null" ? `${protocol}//${host}` : origin)
        || blockedURI === protocol.slice(0, -1)));
    if (!found) return null;
    const directive = found.effectiveDirective || found.violatedDirective;
    return new ParleyError("policy_blocked", `${directive} ${host ? `${protocol}//${host}` : protocol}`);
  }

  /** Notes nothing any more. */
  end() {
    this.#document?.removeEventListener("securitypolicyviolation", this.#note);
  }
}

/** Whether a page may not open this address, because the page came over https and the address is plain. */
export function isMixed(address, page = globalThis.location) {
  const { protocol, hostname } = new URL(address);
  if (page?.protocol !== "https:" || !["ws:", "http:"].includes(protocol)) return false;
  return !(/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname) || hostname.endsWith(".localhost"));
}

/**
 * The error of a WebSocket that did not open, from the answers to ordinary requests.
 * @param {string} address of the WebSocket
 * @param {string} credential "" where there is none
 * @param {typeof fetch} fetch
 * @param {AbortSignal} signal ends the requests
 */
export async function diagnose(address, credential, fetch, signal) {
  const server = new URL(address);
  server.protocol = server.protocol.replace("ws", "http");
  // A proxy may have the server below a path.
  server.pathname = server.pathname.match(/^(.*\/)v1\/realtime$/)?.[1] ?? "/";
  const models = new URL("v1/models", server);
  try {
    const headers = credential ? { Authorization: `Bearer ${credential}` } : {};
    // A page of an origin that is not allowed may send no credential. It may read why, without one.
    const answer = await fetch(models, { headers, signal })
      .catch((cause) => credential ? fetch(models, { signal }) : Promise.reject(cause));
    if (!answer.ok) return await errorOf(answer);
    const ready = await fetch(new URL("readyz", server), { signal });
    return await errorOf(ready);
  } catch (cause) {
    return new ParleyError("network_lost", "", cause);
  }
}

async function errorOf(answer) {
  if (answer.ok) return new ParleyError("websocket_blocked");
  const body = await answer.json().catch(() => null);
  return refusal(answer.status, body?.error?.code, body?.error?.message);
}

/**
 * The error of a file of this module that was not loaded.
 * @param {URL} url of the file
 * @param {PolicyWatch} policy that has watched the attempt
 * @param {unknown} cause what the browser says
 */
export async function fileError(url, policy, cause) {
  const name = url.href.slice(0, longestName);
  try {
    // The answer of another origin need not be readable: that it answers is enough.
    const answer = await globalThis.fetch(url, { mode: "no-cors" });
    // The browser may report what the policy has blocked after the attempt.
    const blocked = policy.error(url);
    if (blocked) return blocked;
    const type = answer.headers.get("Content-Type");
    // Not every browser reports a worklet that was blocked. The script is there, and was not loaded.
    if (answer.ok && type?.includes("javascript")) {
      return new ParleyError("policy_blocked", `script-src ${url.origin}`, cause);
    }
    const found = answer.status ? ` (${answer.status}${type ? `, ${type}` : ""})` : "";
    return new ParleyError("file_lost", `${name}${found}`, cause);
  } catch {
    return policy.error(url) ?? new ParleyError("network_lost", name, cause);
  }
}
