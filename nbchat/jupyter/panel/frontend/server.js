// A second way to the kernel: the Jupyter Server this page came from, which is heard
// also where a running cell keeps the kernel from hearing a click

// For good; what answers 404 or 409 now (a chat, a call) may be there the next time
const REFUSALS = new Set([401, 403, 405]);

class ServerWay {
  constructor(link) {
    this.link = link;
    this.isOpen = true; // until the server refuses: one line in the console is enough
  }

  async post(action, details) {
    const kernel = this.link.kernel?.id;
    const page = pageSettings();
    const address = ownAddress(page, `nbchat/${action}`);
    if (!this.isOpen || !kernel || !address) return;
    const body = JSON.stringify({ kernel_id: kernel, ...details });
    const options = { method: "POST", headers: vouching(page), body, cache: "no-store" };
    try {
      // By `mode` the browser refuses every other server.
      const answer = await fetch(address, { ...options, mode: "same-origin" });
      this.isOpen = !REFUSALS.has(answer.status);
    } catch {
      // Not reached: that may be different the next time, and the console has its line.
    }
  }
}

// What Jupyter Server says in its pages; nothing on any other page
function pageSettings() {
  try {
    return JSON.parse(document.getElementById("jupyter-config-data").textContent);
  } catch {
    return {};
  }
}

function ownAddress(page, path) {
  if (!page.nbchatRoutes || typeof page.baseUrl !== "string") return null;
  const address = new URL(page.baseUrl.replace(/\/*$/, `/${path}`), location.origin);
  return address.origin === location.origin ? address : null;
}

function vouching({ token }) {
  const xsrf = /(?:^|;\s*)_xsrf=([^;]*)/.exec(document.cookie)?.[1];
  return {
    "Content-Type": "application/json",
    ...(token && { Authorization: `token ${token}` }),
    ...(xsrf && { "X-XSRFToken": xsrf }),
  };
}
