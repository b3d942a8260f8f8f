// Conversion of a classic queue into a quorum queue: the plan and its confirmation, the progress, and how to end it.

import { path, post, remove } from "../core/api.js";
import { el } from "../core/dom.js";
import { count, plural } from "../core/format.js";
import { confirm } from "./dialog.js";
import { button, meter, pairsOf, panel } from "./pieces.js";

const conversionPath = (told) => path`leveret/queues/${told.vhost}/${told.name}/conversion`;

export function openConversion(told, screen) {
  const plan = el("div", { role: "status" }, el("p", { class: "quiet" }, "Checking whether it can be converted…"));
  confirm({
    title: `Convert ${told.name} to a quorum queue`,
    intro: [
      plan,
      el(
        "p",
        {},
        "The messages are copied while the queue is in use. Publishers and consumers stay connected and pause for less than " +
          "a second when it switches. What consumers hold unacknowledged then is delivered again, marked as redelivered.",
      ),
      el("p", {}, el("strong", {}, "A quorum queue cannot be converted back.")),
    ],
    action: "Convert",
    typed: told.name,
    run: async () => {
      await post(conversionPath(told), {});
      return `${told.name} is being converted.`;
    },
    then: () => screen.refresh(),
  });
  showPlan(told, plan);
}

// A dry run: the node says what the quorum queue would be, or why there can be none.
async function showPlan(told, plan) {
  try {
    const { messages, arguments: given } = await post(conversionPath(told), { dry_run: true });
    plan.replaceChildren(
      el("p", {}, `${plural(messages, "message")} would be copied. Arguments of the quorum queue:`),
      pairsOf(given),
    );
  } catch (error) {
    plan.replaceChildren(el("p", { class: "notice bad" }, error.message));
  }
}

// Nothing, where the queue is not being converted.
export function conversionPanel(told, screen) {
  if (!told.conversion) return null;
  const { messages, copied } = told.conversion;
  return panel(
    ["Conversion to a quorum queue", button("Cancel conversion", () => cancelConversion(told, screen))],
    meter(copied, messages, `${count(copied)} of ${plural(messages, "message")} copied`, "good"),
  );
}

function cancelConversion(told, screen) {
  confirm({
    title: `Cancel the conversion of ${told.name}`,
    intro: el("p", {}, "The queue stays a classic queue with all its messages. What was copied so far is discarded."),
    action: "Cancel conversion",
    run: async () => {
      await remove(conversionPath(told));
      return `${told.name} stays a classic queue.`;
    },
    then: () => screen.refresh(),
  });
}
