// Every view by the first part of its address, and the menu that leads to them. Modules of views know nothing of each other.

import { activity } from "./activity.js";
import { alarms } from "./alarms.js";
import { channel, channels } from "./channels.js";
import { cluster } from "./cluster.js";
import { connection, connections } from "./connections.js";
import { consumers } from "./consumers.js";
import { deadLetters } from "./dead-letters.js";
import { definitions } from "./definitions.js";
import { exchange, exchanges } from "./exchanges.js";
import { features } from "./features.js";
import { federation } from "./federation.js";
import { groups } from "./groups.js";
import { limits } from "./limits.js";
import { links } from "./links.js";
import { node, nodes } from "./nodes.js";
import { nowhere } from "./nowhere.js";
import { overview } from "./overview.js";
import { parameters } from "./parameters.js";
import { permissions } from "./permissions.js";
import { policies } from "./policies.js";
import { queue } from "./queue.js";
import { queues } from "./queues.js";
import { user, users } from "./users.js";
import { vhost, vhosts } from "./vhosts.js";

// Name in the address -> the list, and the view of one thing with how many names it has.
const VIEWS = {
  overview: { list: overview },
  queues: { list: queues, one: queue, names: 2 },
  exchanges: { list: exchanges, one: exchange, names: 2 },
  connections: { list: connections, one: connection, names: 1 },
  channels: { list: channels, one: channel, names: 1 },
  consumers: { list: consumers },
  activity: { list: activity },
  alarms: { list: alarms },
  nodes: { list: nodes, one: node, names: 1 },
  cluster: { list: cluster },
  groups: { list: groups },
  "dead-letters": { list: deadLetters },
  users: { list: users, one: user, names: 1 },
  vhosts: { list: vhosts, one: vhost, names: 1 },
  permissions: { list: permissions },
  policies: { list: policies },
  limits: { list: limits },
  links: { list: links },
  federation: { list: federation },
  parameters: { list: parameters },
  definitions: { list: definitions },
  features: { list: features },
};

export const MENU = [
  { title: "", views: [{ name: "overview", label: "Overview", icon: "overview" }] },
  {
    title: "Messaging",
    views: [
      { name: "queues", label: "Queues and streams", icon: "queues" },
      { name: "exchanges", label: "Exchanges", icon: "exchanges" },
      { name: "connections", label: "Connections", icon: "connections" },
      { name: "channels", label: "Channels", icon: "channels" },
      { name: "consumers", label: "Consumers", icon: "consumers" },
      { name: "links", label: "Shovels", icon: "links" },
      { name: "federation", label: "Federation", icon: "federation" },
    ],
  },
  {
    title: "Health",
    views: [
      { name: "alarms", label: "Alarms and blocking", icon: "alarms" },
      { name: "nodes", label: "Nodes", icon: "nodes", right: "monitoring" },
      { name: "cluster", label: "Cluster map", icon: "cluster", right: "monitoring" },
      { name: "groups", label: "Raft groups", icon: "groups", right: "monitoring" },
      { name: "dead-letters", label: "Dead letters", icon: "dead" },
      { name: "activity", label: "Activity", icon: "activity" },
    ],
  },
  {
    title: "Administration",
    views: [
      { name: "users", label: "Users", icon: "users", right: "administrator" },
      { name: "permissions", label: "Permissions", icon: "permissions", right: "administrator" },
      { name: "vhosts", label: "Virtual hosts", icon: "vhosts" },
      { name: "policies", label: "Policies", icon: "policies" },
      { name: "limits", label: "Limits", icon: "limits", right: "administrator" },
      { name: "parameters", label: "Parameters", icon: "parameters", right: "policymaker" },
      { name: "definitions", label: "Definitions", icon: "definitions", right: "administrator" },
      { name: "features", label: "Feature flags", icon: "features" },
    ],
  },
];

export function viewOf({ parts }) {
  const [first, ...names] = parts;
  const found = VIEWS[first === "" ? "overview" : first];
  if (found === undefined) return nowhere;
  if (names.length === 0) return found.list;
  return found.one && names.length === found.names ? found.one : nowhere;
}
