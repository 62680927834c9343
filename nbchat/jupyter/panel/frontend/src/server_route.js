// A second route to the kernel, through Jupyter Server, for Stop and approvals: a message
// to the widget waits while a cell runs

/** @import { KernelLink } from "./kernel_connection.js" */

/** @typedef {{ nbchatRoutes?: boolean, baseUrl?: string, token?: string }} PageSettings */

// Final refusals; after a 404 or 409 the chat or call may exist the next time
const REFUSALS = new Set([401, 403, 405]);

export class ServerRoute {
  /** @param {KernelLink} link */
  constructor(link) {
    this.link = link;
    this.isOpen = true; // until the server refuses, which it logs once
  }

  /** @param {string} action @param {Record<string, unknown>} details */
  async post(action, details) {
    const kernel = this.link.kernel?.id;
    const page = pageSettings();
    const address = ownAddress(page, `nbchat/${action}`);
    if (!this.isOpen || !kernel || !address) return;
    const body = JSON.stringify({ kernel_id: kernel, ...details });
    /** @type {RequestInit} */
    const options = { method: "POST", headers: authorization(page), body, cache: "no-store" };
    try {
      // `mode` makes the browser refuse any other server.
      const answer = await fetch(address, { ...options, mode: "same-origin" });
      this.isOpen = !REFUSALS.has(answer.status);
    } catch {
      // Not reached; try again the next time. The browser logs it.
    }
  }
}

/** Settings that Jupyter Server puts into its pages; empty on other pages
 * @returns {PageSettings}
 */
function pageSettings() {
  try {
    return JSON.parse(document.getElementById("jupyter-config-data")?.textContent ?? "");
  } catch {
    return {};
  }
}

/** @param {PageSettings} page @param {string} path */
function ownAddress(page, path) {
  if (!page.nbchatRoutes || typeof page.baseUrl !== "string") return null;
  const address = new URL(page.baseUrl.replace(/\/*$/, `/${path}`), location.origin);
  return address.origin === location.origin ? address : null;
}

/** @param {PageSettings} page @returns {HeadersInit} */
function authorization({ token }) {
  const xsrf = /(?:^|;\s*)_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  return {
    "Content-Type": "application/json",
    ...(token && { Authorization: `token ${token}` }),
    ...(xsrf && { "X-XSRFToken": xsrf }),
  };
}
