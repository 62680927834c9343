// What a kernel is asked for: the panel of its chat. It needs no cell, prints nothing and
// leaves no name among the person's variables.

import { KernelMessage } from "@jupyterlab/services";

const ASKED = "open_beside"; // of nbchat.jupyter.magics
const CALL = `__import__('nbchat.jupyter.magics', fromlist=['${ASKED}']).${ASKED}()`;

/** @typedef {{ modelId: string } | { missing: "nbchat" | "newer" } | { problem: string }} Opened */

/** Runs beside a cell on a subshell; otherwise it waits for the cell.
 * @param {Kernel} kernel
 * @param {{ isBeside: boolean }} how
 * @returns {Promise<Opened>}
 */
export async function openChat(kernel, { isBeside }) {
  const subshell = isBeside ? await newSubshell(kernel) : null;
  try {
    const message = KernelMessage.createMessage({
      msgType: "execute_request",
      channel: "shell",
      username: kernel.username,
      session: kernel.clientId,
      subshellId: subshell,
      content: {
        code: "",
        silent: true,
        store_history: false,
        allow_stdin: false,
        stop_on_error: false,
        user_expressions: { nbchat: CALL },
      },
    });
    return read((await kernel.sendShellMessage(message, true).done).content);
  } finally {
    if (subshell) kernel.requestDeleteSubshell({ subshell_id: subshell }, true);
  }
}

/** @param {Kernel} kernel */
async function newSubshell(kernel) {
  const reply = await kernel.requestCreateSubshell({}).done;
  return reply?.content.subshell_id ?? null;
}

/** @param {ExecuteReply} reply @returns {Opened} */
function read({ status, user_expressions: results }) {
  const found = results?.nbchat;
  if (!found) return { problem: `The kernel answered: ${status}` };
  if (found.status === "ok") return { modelId: found.data["text/plain"].slice(1, -1) };
  const { ename, evalue } = found;
  if (evalue === "No module named 'nbchat'") return { missing: "nbchat" };
  if (evalue.startsWith("No module named 'nbchat.") || evalue.includes(`'${ASKED}'`)) return { missing: "newer" };
  return { problem: `${ename}: ${evalue}` };
}
