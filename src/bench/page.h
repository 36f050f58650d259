// SPDX-License-Identifier: Apache-2.0
//
// What `viaduct bench --report` tells: measurements as points of a report, with the machine they are of.
#pragma once

#include "bench/plan.h"
#include "bench/report.h"
#include "bench/summary.h"

#include <string>

namespace viaduct::bench {

// What sets a row apart from others of the same load and numbers is told behind the server's name.
ReportPoint report_point(const std::string& server, const Summary& summary);

// This machine, now.
ReportHeader report_header(const Plan& plan);

} // namespace viaduct::bench
