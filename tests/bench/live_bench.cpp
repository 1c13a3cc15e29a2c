// What the page live.html costs the job: a `train` line read and the page written, by workers. With
// one line every --log-every-s (5 s) the share of a core is the time of one page / 5 s.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "support/core/temp_folder.hpp"
#include "support/train/live_lines.hpp"
#include "train/live/live_page.hpp"

namespace {

std::string train_line(std::size_t workers) {
    const std::string numbers =
        fmt::format("[{}]", fmt::join(std::vector<double>(workers, 0.123456789), ","));
    std::string line =
        R"({"event":"train","samples_applied":100,"updates":10,"train_s":1,"lr":0.1,)"
        R"("gradient_norm":1,"samples_per_s":100,"mode":"ssgd","live":4,"pending":0,"loss":1,)"
        R"("accuracy":0.5)";
    for (const char* column :
         {"lag", "own_s", "tau_s", "input_s", "compute_s", "push_s", "pull_s", "wait_s",
          "cpu_share", "host_busy", "host_steal", "rx_bytes_s", "tx_bytes_s"}) {
        line += fmt::format(",\"{}\":{}", column, numbers);
    }
    return line + "}";
}

void live_page(benchmark::State& state) {
    const cohort::TempFolder folder;
    cohort::LivePage page(folder.path(), 1);
    const std::string start = cohort::test::start_line();
    page.add(start.substr(0, start.size() - 1), cohort::Clock::Seconds(0));
    const std::string line = train_line(static_cast<std::size_t>(state.range(0)));
    double now_s = 0;
    for (auto unused : state) {
        (void)unused;
        page.add(line, cohort::Clock::Seconds(now_s += 1));
    }
}
BENCHMARK(live_page)->Arg(4)->Arg(64)->Arg(1024)->Unit(benchmark::kMicrosecond);

}  // namespace
