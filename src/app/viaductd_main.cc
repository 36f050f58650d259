// SPDX-License-Identifier: Apache-2.0
//
// viaductd: one device behind virtiofsd's command line.
#include "config/serve_options.h"
#include "engine/serve.h"

#include <cstdio>

namespace {

int report(const viaduct::Failure& failure) {
    std::fprintf(stderr, "viaductd: %s\n", failure.message.c_str());
    return failure.exit_status;
}

} // namespace

int main(int argc, char** argv) {
    using namespace viaduct;
    const auto command = config::parse_viaductd(argc, argv);
    if (!command) return report(command.error());
    if (command->request == config::Request::help) return std::fputs(command->help.c_str(), stdout) < 0;
    if (command->request == config::Request::version) return std::puts("viaductd " VIADUCT_VERSION) < 0;
    if (command->print_capabilities)
        return std::puts("{\n  \"type\": \"fs\",\n  \"features\": [\n    \"separate-options\"\n  ]\n}") < 0;
    const auto ended = engine::serve(command->options, 1); // as virtiofsd: 1 for a signal
    if (!ended) return report(ended.error());
    return *ended;
}
