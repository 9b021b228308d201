// Starts what the pages share.

import { startActs } from "./acts.js";
import { startCharts } from "./chart.js";
import { startClock } from "./clock.js";
import { startEventLog } from "./events.js";
import { startKeyboard } from "./keyboard.js";
import { listen } from "./live.js";
import { startNamespace } from "./namespace.js";
import { startNotices } from "./notices.js";
import { startOutput } from "./output.js";
import { startRates } from "./rates.js";
import { startRefresh } from "./refresh.js";
import { startSelection } from "./selection.js";

const live = listen();
startNamespace();
startClock();
startNotices(live);
startCharts(live);
startSelection();
startActs();
startRefresh(live);
startRates();
startEventLog();
startOutput();
startKeyboard();
