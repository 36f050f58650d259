// SPDX-License-Identifier: Apache-2.0
//
// What `viaduct bench` tells: a table for people, JSON lines for programs, and on a terminal how far it is.
#pragma once

#include "base/result.h"
#include "bench/plan.h"
#include "bench/server.h"
#include "bench/summary.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

namespace viaduct::bench {

// A row of the table, with a line for each error.
std::string table_head(const Plan& plan);
std::string table_row(const Plan& plan, const std::string& name, const Summary& summary);

// The line below a row that compares it with `to`.
std::string comparison_text(const std::string& to, const Comparison& comparison);

// JSON lines.
std::string run_line(const Server& server, const driver::LoadOptions& load, unsigned number,
                     const Measurement& run);
std::string summary_line(const Server& server, const Summary& summary);
std::string comparison_line(const Server& server, const driver::LoadOptions& load, const std::string& to,
                            const Comparison& comparison);

class Output {
public:
    static Outcome<std::unique_ptr<Output>> open(const Plan& plan);

    // A sentence on stderr.
    void note(const std::string& text);
    // Before each run; `done` of `total` are over.
    void progress(unsigned done, unsigned total, const std::string& what);
    void run(const Server& server, const driver::LoadOptions& load, unsigned number,
             const Measurement& measured);
    void row(const Server& server, const Summary& summary);
    void comparison(const Server& server, const driver::LoadOptions& load, const std::string& to,
                    const Comparison& compared);

private:
    struct CloseFile {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };

    explicit Output(const Plan& plan) : plan_(plan) {}
    void clear_progress();
    void print_json(const std::string& line);

    const Plan& plan_;
    std::unique_ptr<std::FILE, CloseFile> json_file_;
    std::FILE* json_ = nullptr; // the file, stdout, or none
    bool head_printed_ = false;
    bool progress_shown_ = false;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace viaduct::bench
