// SPDX-License-Identifier: Apache-2.0
//
// Device options of the public headers, checked and turned into those of the driver end.
#pragma once

#include "base/result.h"
#include "driver/device.h"

#include <viaduct/device.h>

#include <cstdint>
#include <vector>

namespace viaduct::client {

// The failure names the option and what would be right.
Outcome<driver::DeviceOptions> driver_options(const DeviceOptions& options);

// Request queue, from 0, by CPU id, as the options have it for a device with so many of them; empty where
// they leave it to the driver end.  For options that were checked.
std::vector<std::uint32_t> given_map(const DeviceOptions& options, std::uint32_t request_queues);

} // namespace viaduct::client
