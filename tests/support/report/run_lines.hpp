#pragma once

#include <fmt/format.h>

#include <string>

namespace cohort::test {

/// Two workers, of which worker 1 takes `slowness` times as long as worker 0, which waits for it.
/// Worker 0 sends for a tenth of a second and computes for two; updates are synchronous.
inline std::string train_line(double train_s, double slowness, const std::string& mode = "ssgd") {
    const double step_s = 0.1 + 0.2 * slowness;
    return fmt::format(
        "{{\"event\":\"train\",\"samples_applied\":{0:.0f},\"updates\":{0:.0f},\"train_s\":{1},"
        "\"lr\":0.1,\"samples_per_s\":{2},\"mode\":\"{3}\",\"live\":2,\"pending\":0,\"lag\":[0,0],"
        "\"loss\":{4},\"accuracy\":0.5,\"tau_s\":[0.3,{5}],\"input_s\":[0,0],"
        "\"compute_s\":[0.2,{6}],\"push_s\":[0.05,0.05],\"pull_s\":[0.05,0.05],"
        "\"wait_s\":[{7},0],\"slow\":[null,{8}]}}\n",
        100 * train_s, train_s, 64 / step_s, mode, 2 / (1 + train_s), step_s, 0.2 * slowness,
        step_s - 0.3, slowness > 1 ? "\"device\"" : "null");
}

/// A line per second, tests whose accuracy rises linearly to `accuracy` at the end.
struct RunText {
    int windows = 10;
    double slowness = 1;
    double accuracy = 0.8;
    double target = 0;  ///< 0: none
    bool summary = true;
    std::string mode = "ssgd";
    std::string between = {};  ///< lines before the summary
};

inline std::string run_lines(const RunText& run) {
    std::string text = fmt::format(
        "{{\"event\":\"start\",\"version\":\"0.2.0\",\"revision\":\"abc123\",\"model\":\"mlp\","
        "\"arch\":\"servers\",\"mode\":\"{}\",\"workers\":2,\"servers\":1,\"batch\":32,"
        "\"budget_samples\":10000,\"samples_applied\":0,\"target_accuracy\":{},"
        "\"target_loss\":null,\"deterministic\":false,\"device\":\"cpu & <co>\","
        "\"hosts\":[\"node1\"],\"command\":\"cohort train --data d.h5\"}}\n",
        run.mode, run.target > 0 ? fmt::format("{}", run.target) : "null");
    for (int i = 1; i <= run.windows; ++i) {
        text += train_line(i, run.slowness, run.mode);
        text += fmt::format(
            "{{\"event\":\"evaluation\",\"samples_applied\":{},\"updates\":{},\"train_s\":{},"
            "\"test_accuracy\":{},\"test_loss\":0.5,\"test_samples\":1000,\"pause_s\":0.1}}\n",
            100 * i, 100 * i, i, run.accuracy * i / run.windows);
    }
    text += run.between;
    return run.summary
               ? text + fmt::format(
                            "{{\"event\":\"summary\",\"samples_applied\":{},\"updates\":{},"
                            "\"samples_returned\":0,\"lag_mean\":0,\"lag_max\":0,"
                            "\"train_s\":{},\"wall_s\":{},\"samples_per_s\":100,"
                            "\"cpu_s\":3,\"stop_reason\":\"budget\",\"lost\":0}}\n",
                            100 * run.windows, 100 * run.windows, run.windows, 1.1 * run.windows)
               : text;
}

}  // namespace cohort::test
