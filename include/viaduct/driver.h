// SPDX-License-Identifier: Apache-2.0
//
// The whole library.
#pragma once

#include <viaduct/device.h>
#include <viaduct/file_client.h>
#include <viaduct/result.h>
