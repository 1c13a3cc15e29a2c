// Rates that plans achieved, from results of virtual runs and metrics of real runs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cohort/core/error.hpp"
#include "cohort/core/limits.hpp"
#include "cohort/report/sweep_results.hpp"
#include "data/dataset/text_file.hpp"
#include "report/fit/chooser_training.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kMetricsFile = "metrics.jsonl";

std::string option_text(const SimulationResult& result, std::string_view name) {
    const auto found = std::find_if(result.options.begin(), result.options.end(),
                                    [name](const auto& option) { return option.first == name; });
    return found == result.options.end() ? std::string() : found->second;
}

/// Far beyond any logarithm of a rate and any share, and small enough that errors of predictions
/// and their squares are finite.
constexpr Limits<double> kWindowLimits{.least = -1e6, .most = 1e6};

/// @param where  of the window, for messages
void check_window(const RateWindow& window, const std::string& where) {
    const auto check = [&where](double value, std::string_view name) {
        if (!kWindowLimits.contain(value)) {
            fail<FileError>({.where = where,
                             .what = fmt::format("{} is out of range", name),
                             .expected = kWindowLimits.text(),
                             .got = fmt::format("{}", value)});
        }
    };
    check(window.log_rate, "log_rate");
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        check(window.features.values[term], RateFeatures::names()[term]);
    }
}

RateRun run_of_result(const std::string& file) {
    SimulationResult result = read_result(file);
    for (std::size_t row = 0; row < result.windows.size(); ++row) {
        check_window(result.windows[row], fmt::format("{}:/windows, row {}", file, row));
    }
    const std::string trace = option_text(result, "trace");
    const std::string pattern = option_text(result, "pattern");
    return {.file = file,
            .pattern = trace.empty() ? pattern.substr(0, pattern.find(':')) : trace,
            .windows = std::move(result.windows)};
}

RateWindow window_of(const Json& line) {
    RateWindow window{.seconds = line.at("train_s").get<double>(),
                      .samples = line.at("samples_applied").get<std::int64_t>(),
                      .plan = line.at("plan").get<std::string>(),
                      .features = {},
                      .log_rate = line.at("log_rate").get<double>()};
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        window.features.values[term] =
            line.at("features").at(std::string(RateFeatures::names()[term])).get<double>();
    }
    return window;
}

RateRun run_of_metrics(const std::string& file) {
    RateRun run{.file = file, .pattern = fs::path(file).parent_path().string(), .windows = {}};
    std::istringstream text(read_text_file(file));
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
        const std::string where = fmt::format("{}, line {}", file, number);
        try {
            const Json json = Json::parse(line);
            if (json.at("event") == "rate") {
                run.windows.push_back(window_of(json));
                check_window(run.windows.back(), where);
            }
        } catch (const Json::exception& error) {
            fail<FileError>({.where = where,
                             .what = "not a line that cohort train writes",
                             .got = error.what()});
        }
    }
    return run;
}

std::vector<RateRun> runs_of(const std::string& folder) {
    const auto file = [&](const char* name) { return (fs::path(folder) / name).string(); };
    std::error_code ignored;
    if (fs::exists(file(kSweepFile), ignored)) {
        std::vector<RateRun> runs;
        for (const RunRow& row : read_sweep_results(folder).rows) {
            runs.push_back(run_of_result(row.file));
        }
        return runs;
    }
    if (fs::exists(file(kResultFile), ignored)) {
        return {run_of_result(file(kResultFile))};
    }
    if (fs::exists(file(kMetricsFile), ignored)) {
        return {run_of_metrics(file(kMetricsFile))};
    }
    fail<FileError>(
        {.where = folder,
         .what = "holds no run",
         .expected = fmt::format("{}, {} or {}", kSweepFile, kResultFile, kMetricsFile)});
}

}  // namespace

std::vector<RateRun> rate_runs(const std::vector<std::string>& folders) {
    std::vector<RateRun> all;
    for (const std::string& folder : folders) {
        for (RateRun& run : runs_of(folder)) {
            if (!run.windows.empty()) {
                all.push_back(std::move(run));
            }
        }
    }
    if (all.empty()) {
        fail<UsageError>({.where = "runs",
                          .what = "no run has recorded the rates of its plans",
                          .expected = "runs of star-ml, or of any mode with --record-rates"});
    }
    return all;
}

}  // namespace cohort
