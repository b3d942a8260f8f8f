// Export and import of definitions.

import { get, path, post } from "../core/api.js";
import { vhostNames } from "../core/broker.js";
import { el } from "../core/dom.js";
import { plural } from "../core/format.js";
import { jsonIn, openDialog, toast } from "../parts/dialog.js";
import { button, heading, panel } from "../parts/pieces.js";

const KINDS = ["users", "vhosts", "permissions", "queues", "exchanges", "bindings", "policies", "parameters"];

export const definitions = {
  title: () => "Definitions",

  load: vhostNames,

  render(all) {
    return [
      heading("Definitions", {
        below:
          "Users, virtual hosts, permissions, queues, exchanges, bindings, policies and parameters, in RabbitMQ's JSON " +
          "format. Messages are not included.",
      }),
      el(
        "div",
        { class: "columns" },
        panel(
          "Export",
          el("p", {}, "Download the definitions of the whole cluster or of one virtual host."),
          el(
            "div",
            { class: "toolbar below" },
            button("Export", () => exportThem(all), { kind: "primary" }),
          ),
        ),
        panel(
          "Import",
          el(
            "p",
            {},
            "Adds everything in the file; nothing is removed. Users, policies and parameters of the same name are overwritten.",
          ),
          el(
            "div",
            { class: "toolbar below" },
            button("Import", () => importThem(all), { kind: "primary" }),
          ),
        ),
      ),
    ];
  },
};

const scope = (all, everything) => ({
  name: "vhost",
  label: "Scope",
  kind: "choice",
  options: [["", everything], ...all.map((name) => [`v${name}`, name])],
});

const where = (vhost) => (vhost === "" ? "definitions" : path`definitions/${vhost.slice(1)}`);

function exportThem(all) {
  openDialog({
    title: "Export definitions",
    action: "Export",
    fields: [scope(all, "the whole cluster")],
    run: async ({ vhost }) => {
      const document = await get(where(vhost));
      save(JSON.stringify(document, null, 2), `leveret-definitions-${new Date().toISOString().slice(0, 10)}.json`);
      return "The definitions are downloaded.";
    },
  });
}

function save(text, name) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

function importThem(all) {
  openDialog({
    title: "Import definitions",
    action: "Import",
    fields: [{ name: "file", label: "File", kind: "file", required: true }, scope(all, "the whole cluster")],
    run: async ({ file, vhost }) => {
      const document = jsonIn(await file.text(), "The file");
      await post(where(vhost), document);
      toast(
        KINDS.filter((kind) => Array.isArray(document[kind]))
          .map((kind) => `${plural(document[kind].length, kind.replace(/s$/, ""), kind)}`)
          .join(", "),
      );
      return "The definitions are imported.";
    },
  });
}
