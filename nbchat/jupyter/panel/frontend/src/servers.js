// The dialog of MCP servers: what is configured, connecting, and the tools of each

import { Dialog } from "./dialog.js";
import { button, on, plural, pressedIn, region, setDisabled, tag } from "./dom.js";

/** @import * as Protocol from "../protocol.js" */
/** @import { ChatPanel } from "./panel.js" */

const NONE =
  "No MCP servers are configured. Add them to .jupyter/mcp_settings.json or mcp.json " +
  "beside the notebook, or set mcp_file to another file.";

export class ServersDialog extends Dialog {
  /** @param {ChatPanel} panel */
  constructor(panel) {
    super(panel, { title: "MCP servers", className: "nbc-servers" });
    this.list = tag("ul", "nbc-session-list", { "aria-label": "MCP servers" });
    const scrolling = { ...region("MCP servers"), "data-first": "" };
    this.scroller = tag("div", "nbc-history-scroller", scrolling, this.list);
    this.content.append(this.scroller);
    on(this.list, "click", (event) => this.clicked(event));
  }

  /** @param {HTMLElement} opener */
  open(opener) {
    super.open(opener);
    this.tell("Loading …");
    this.refresh();
  }

  // Also after a command, for it may have connected one
  refresh() {
    if (this.isOpen) this.query({ type: "servers" });
  }

  /** @param {Protocol.ServersList} message */
  answered({ servers }) {
    this.list.replaceChildren(...servers.map(serverRow));
    this.tell(servers.length ? "You approve each call of a server's tools." : NONE);
  }

  draw() {
    const { isBlocked } = this;
    this.keepFocus(() => setDisabled(this.list, "button", isBlocked));
  }

  /** @param {Event} event */
  clicked(event) {
    const pressed = pressedIn(event, "button");
    if (!pressed) return;
    this.tell(`${pressed.textContent}ing …`);
    this.scroller.focus();
    this.panel.say(`/mcp ${pressed.dataset.name}`);
  }
}

/** @param {Protocol.Server} server */
function serverRow({ name, address, origin, problem, is_connected: isConnected, tools }) {
  const state = isConnected ? `connected, ${plural(tools.length, "tool")}` : problem || "not connected";
  const about = tag("div", "nbc-session-about", {}, tag("div", "nbc-session-title", {}, name));
  about.append(tag("div", "nbc-session-facts", {}, `${state} · ${origin}`));
  about.append(tag("code", "nbc-server-address", {}, address));
  if (tools.length) {
    const rows = tools.map((each) => tag("li", "", {}, tag("code", "", {}, each.name), ` ${each.about}`));
    about.append(tag("details", "nbc-server-tools", {}, tag("summary", "", {}, "Tools"), tag("ul", "", {}, ...rows)));
  }
  const [label, title] = isConnected
    ? ["Disconnect", "Disconnect and stop offering its tools to the model"]
    : ["Connect", "Connect and offer its tools to the model"];
  const step = button("", label, title);
  step.dataset.name = name;
  step.setAttribute("aria-label", `${label}: ${name}`);
  return tag("li", "nbc-session", {}, about, step);
}
