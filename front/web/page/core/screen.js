// One view that is being looked at: asks the node for what it shows, again and again, and keeps the last answer on the page
// when the node goes away. A view is
//
//     title(place)                  what the page is called
//     load(ask, place)              asks the node; what it returns is given to
//     render(data, place, screen)   which makes the elements
//
// It stops while the page cannot be seen. After an error it asks sooner, then more and more slowly.

import { look } from "./api.js";
import { newRound } from "./trend.js";

const EVERY_MS = 5000;
const AFTER_ERROR_MS = [1000, 2000, 5000, 10000];

export class Screen {
  // `show(screen)` is called whenever there is something new to show; `state` is the view's own, as long as it is open.
  constructor(view, place, show) {
    this.view = view;
    this.place = place;
    this.state = {};
    this.data = null;
    this.error = null;
    this.missing = [];
    this.loadedAt = 0;
    this.paused = false;
    this._show = show;
    this._errors = 0;
    this._stopped = new AbortController();
    this._round = 0;
    this._timer = 0;
    document.addEventListener("visibilitychange", () => this._seen(), { signal: this._stopped.signal });
  }

  stop() {
    this._stopped.abort();
    clearTimeout(this._timer);
  }

  // Another page, order or filter of the same view.
  moved(place) {
    this.place = place;
    return this.refresh();
  }

  pause(paused) {
    this.paused = paused;
    if (paused) clearTimeout(this._timer);
    else this.refresh();
    this._show(this);
  }

  // With what the view's own state has become; asks nobody.
  redraw() {
    this._show(this);
  }

  // Now, without waiting for the next turn.
  async refresh() {
    clearTimeout(this._timer);
    const round = ++this._round;
    const missing = new Set();
    const ask = (where, query = {}) => this._ask(where, query, missing);
    try {
      const data = await this.view.load(ask, this.place, this);
      if (this._isOver(round)) return;
      newRound();
      Object.assign(this, { data, error: null, missing: [...missing], loadedAt: Date.now(), _errors: 0 });
    } catch (error) {
      if (this._isOver(round)) return;
      this.error = error;
      this._errors += 1;
    }
    this._show(this);
    this._again();
  }

  async _ask(where, query, missing) {
    const { data, missing: names } = await look(where, query, this._stopped.signal);
    for (const name of names) missing.add(name);
    return data;
  }

  _isOver(round) {
    return this._stopped.signal.aborted || round !== this._round;
  }

  _again() {
    if (document.hidden || this.paused || this._stopped.signal.aborted) return;
    const slow = Math.min(this._errors, AFTER_ERROR_MS.length);
    this._timer = setTimeout(() => this.refresh(), slow === 0 ? EVERY_MS : AFTER_ERROR_MS[slow - 1]);
  }

  _seen() {
    clearTimeout(this._timer);
    if (!document.hidden && !this.paused) this.refresh();
  }
}
