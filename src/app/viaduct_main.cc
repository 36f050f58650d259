// SPDX-License-Identifier: Apache-2.0
//
// viaduct: the commands.
#include "bench/bench.h"
#include "config/bench_options.h"
#include "config/guest_options.h"
#include "config/map_options.h"
#include "config/mount_helper.h"
#include "config/mount_options.h"
#include "config/serve_options.h"
#include "engine/guest.h"
#include "engine/map.h"
#include "engine/mount.h"
#include "engine/serve.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace viaduct;

constexpr const char* kHelp = R"(Usage: viaduct COMMAND [OPTION...]

Commands:
  serve   serve a directory to guests as a vhost-user virtio-fs device with many queues
  mount   mount a directory at another place of this host
  guest   boot a throw-away virtual machine with a directory mounted and run a command in it
  map     show which request queue each CPU of this or another machine would use
  bench   put a load on a vhost-user-fs device and tell how fast it is and what it costs

viaduct COMMAND --help tells the options of a command; viaduct(1) tells more.
)";

int report(const Failure& failure) {
    std::fprintf(stderr, "viaduct: %s\n", failure.message.c_str());
    return failure.exit_status;
}

int print(const char* text) {
    return std::fputs(text, stdout) < 0 ? 1 : 0;
}
int print_version() {
    return print("viaduct " VIADUCT_VERSION "\n");
}

int serve(int argc, char** argv) {
    const auto command = config::parse_serve(argc, argv);
    if (!command) return report(command.error());
    if (command->request == config::Request::help) return print(command->help.c_str());
    if (command->request == config::Request::version) return print_version();
    const auto ended = engine::serve(command->options, 0);
    return ended ? *ended : report(ended.error());
}

int mount(int argc, char** argv) {
    const auto command = config::parse_mount(argc, argv);
    if (!command) return report(command.error());
    if (command->request == config::Request::help) return print(command->help.c_str());
    if (command->request == config::Request::version) return print_version();
    const auto ended = engine::mount(*command);
    return ended ? *ended : report(ended.error());
}

// What mount(8) knows of exit statuses.
constexpr int kMountMisused = 1;
constexpr int kMountFailed = 32;

int help_mount(int argc, char** argv) {
    const auto words = config::mount_helper_words(argc, argv);
    if (!words) {
        report(words.error());
        return kMountMisused;
    }
    if (!*words) return 0;
    std::vector<std::string> texts{"mount"};
    texts.insert(texts.end(), (*words)->begin(), (*words)->end());
    std::vector<char*> arguments(texts.size());
    std::ranges::transform(texts, arguments.begin(), [](std::string& text) { return text.data(); });
    const int status = mount(static_cast<int>(arguments.size()), arguments.data());
    return status == 0 ? 0 : status == 2 ? kMountMisused : kMountFailed;
}

int guest(int argc, char** argv) {
    const auto command = config::parse_guest(argc, argv);
    if (!command) return report(command.error());
    if (command->request == config::Request::help) return print(command->help.c_str());
    if (command->request == config::Request::version) return print_version();
    const auto status = engine::run_guest(*command);
    return status ? *status : report(status.error());
}

int map(int argc, char** argv) {
    const auto command = config::parse_map(argc, argv);
    if (!command) return report(command.error());
    if (command->request == config::Request::help) return print(command->help.c_str());
    if (command->request == config::Request::version) return print_version();
    const auto text = engine::map_text(*command);
    return text ? print(text->c_str()) : report(text.error());
}

int measure(int argc, char** argv) {
    const auto command = config::parse_bench(argc, argv);
    if (!command) return report(command.error());
    if (command->request == config::Request::help) return print(command->help.c_str());
    if (command->request == config::Request::version) return print_version();
    const auto status = bench::run_bench(*command);
    return status ? *status : report(status.error());
}

} // namespace

int main(int argc, char** argv) {
    if (argc > 0 && config::is_mount_helper(argv[0])) return help_mount(argc, argv);
    if (argc < 2) {
        std::fputs(kHelp, stderr);
        return 2;
    }
    const std::string_view command = argv[1];
    if (command == "serve") return serve(argc - 1, argv + 1);
    if (command == "mount") return mount(argc - 1, argv + 1);
    if (command == "guest") return guest(argc - 1, argv + 1);
    if (command == "map") return map(argc - 1, argv + 1);
    if (command == "bench") return measure(argc - 1, argv + 1);
    if (command == "--help" || command == "-h" || command == "help") return print(kHelp);
    if (command == "--version" || command == "-V") return print_version();
    std::fprintf(stderr,
                 "viaduct: there is no command \"%s\"; there are serve, mount, guest, map and bench (viaduct "
                 "--help)\n",
                 argv[1]);
    return 2;
}
