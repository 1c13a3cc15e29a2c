// The fields of every event. simdjson checks a line as a whole before any of it is used.
#include "records/run/run_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <concepts>
#include <stdexcept>
#include <utility>

namespace cohort {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

/// What is wrong with a line.
struct LineFault : std::runtime_error {
    using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(simdjson::error_code code) {
    throw simdjson::simdjson_error(code);
}

template <class Record>
struct Field {
    std::string_view name;
    void (*set)(Record& record, const element& value);
    bool needed = false;  ///< a line without it is damaged
};
/// The fields of a record.
template <class Record>
inline constexpr int kFields = 0;
template <class Record>
concept HasFields = requires {
    kFields<Record>.size();
};

/// Sets the fields of a record; others of the object are ignored.
template <HasFields Record>
void read(const element& value, Record& to);

// Values by the type of their field; null leaves a field as it is.

void read(const element& value, double& to) {
    to = value.is_null() ? to : double(value);
}

void read(const element& value, std::int64_t& to) {
    to = value.is_null() ? to : std::int64_t(value);
}

void read(const element& value, int& to) {
    const std::int64_t number = value;
    if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max()) {
        refuse(simdjson::NUMBER_OUT_OF_RANGE);
    }
    to = static_cast<int>(number);
}

void read(const element& value, bool& to) {
    to = value;
}

void read(const element& value, std::string& to) {
    to = value.is_null() ? to : std::string_view(value);
}

void read(const element& value, StragglerCause& to) {
    const auto found = std::ranges::find(kWords<StragglerCause>, std::string_view(value));
    if (found == kWords<StragglerCause>.end()) {
        refuse(simdjson::INCORRECT_TYPE);
    }
    to = static_cast<StragglerCause>(found - kWords<StragglerCause>.begin());
}

template <class T>
void read(const element& value, std::optional<T>& to) {
    if (!value.is_null()) {
        T read_value{};
        read(value, read_value);
        to = std::move(read_value);
    }
}

template <class T>
void read(const element& value, std::vector<T>& to) {
    to.clear();
    for (const element one : simdjson::dom::array(value)) {
        read(one, to.emplace_back());
    }
}

template <HasFields Record>
void read(const element& value, Record& to) {
    constexpr auto& kAll = kFields<Record>;
    std::size_t next = 0;
    std::ptrdiff_t needed = std::ranges::count(kAll, true, &Field<Record>::needed);
    for (const auto [name, part] : object(value)) {
        // Lines of an event have their fields in one order, so the next one is mostly this.
        std::size_t index = next;
        for (std::size_t tried = 0; tried < kAll.size() && kAll[index].name != name; ++tried) {
            index = (index + 1) % kAll.size();
        }
        if (kAll[index].name != name) {
            continue;
        }
        try {
            kAll[index].set(to, part);
        } catch (const simdjson::simdjson_error& error) {
            throw LineFault(fmt::format("field {}: {}", name, error.what()));
        }
        needed -= kAll[index].needed ? 1 : 0;
        next = (index + 1) % kAll.size();
    }
    if (needed > 0) {
        const auto first = std::ranges::find(kAll, true, &Field<Record>::needed);
        throw LineFault(
            fmt::format("fields are missing; {} among those that are needed", first->name));
    }
}

template <auto kMember, class Record>
void member(Record& record, const element& value) {
    read(value, record.*kMember);
}

/// A list with a value for each worker.
template <auto kMember>
void column(TrainLine& window, const element& values) {
    std::size_t worker = 0;
    for (const element value : simdjson::dom::array(values)) {
        if (worker == window.workers.size()) {
            window.workers.emplace_back();
        }
        read(value, window.workers[worker++].*kMember);
    }
}

template <auto kReason>
void returned(RunSummary& summary, const element& value) {
    read(value, summary.returned[static_cast<std::size_t>(kReason)]);
}

template <>
inline constexpr auto kFields<RunHeader> = std::to_array<Field<RunHeader>>({
    {"after_loss", member<&RunHeader::after_loss>},
    {"version", member<&RunHeader::version>},
    {"revision", member<&RunHeader::revision>},
    {"command", member<&RunHeader::command>},
    {"hosts", member<&RunHeader::hosts>},
    {"samples_applied", member<&RunHeader::samples_applied>},
    {"model", member<&RunHeader::model>},
    {"arch", member<&RunHeader::arch>},
    {"mode", member<&RunHeader::mode>},
    {"workers", member<&RunHeader::workers>},
    {"servers", member<&RunHeader::servers>},
    {"batch", member<&RunHeader::batch>},
    {"budget_samples", member<&RunHeader::budget_samples>},
    {"target_accuracy", member<&RunHeader::target_accuracy>},
    {"target_loss", member<&RunHeader::target_loss>},
    {"deterministic", member<&RunHeader::deterministic>},
    {"device", member<&RunHeader::device>},
});

template <>
inline constexpr auto kFields<TrainLine> = std::to_array<Field<TrainLine>>({
    {"samples_applied", member<&TrainLine::samples_applied>},
    {"budget_samples", member<&TrainLine::budget_samples>},
    {"updates", member<&TrainLine::updates>},
    {"train_s", member<&TrainLine::train_s>, true},
    {"lr", member<&TrainLine::lr>},
    {"samples_per_s", member<&TrainLine::samples_per_s>},
    {"mode", member<&TrainLine::mode>},
    {"live", member<&TrainLine::live>},
    {"pending", member<&TrainLine::pending>},
    {"lag", column<&WorkerWindow::lag>},
    {"own_s", column<&WorkerWindow::own_s>},
    {"loss", member<&TrainLine::loss>},
    {"accuracy", member<&TrainLine::accuracy>},
    {"r2", member<&TrainLine::r2>},
    {"perplexity", member<&TrainLine::perplexity>},
    {"tau_s", column<&WorkerWindow::tau_s>},
    {"input_s", column<&WorkerWindow::input_s>},
    {"compute_s", column<&WorkerWindow::compute_s>},
    {"push_s", column<&WorkerWindow::push_s>},
    {"pull_s", column<&WorkerWindow::pull_s>},
    {"wait_s", column<&WorkerWindow::wait_s>},
    {"batch", column<&WorkerWindow::batch>},
    {"slow", column<&WorkerWindow::slow>},
});

template <>
inline constexpr auto kFields<RunEvaluation> = std::to_array<Field<RunEvaluation>>({
    {"samples_applied", member<&RunEvaluation::samples_applied>},
    {"updates", member<&RunEvaluation::updates>},
    {"train_s", member<&RunEvaluation::train_s>, true},
    {"test_accuracy", member<&RunEvaluation::accuracy>},
    {"test_r2", member<&RunEvaluation::r2>},
    {"test_loss", member<&RunEvaluation::loss>},
    {"test_perplexity", member<&RunEvaluation::perplexity>},
    {"test_samples", member<&RunEvaluation::test_samples>},
    {"pause_s", member<&RunEvaluation::pause_s>},
});

template <>
inline constexpr auto kFields<SwitchReport> = std::to_array<Field<SwitchReport>>({
    {"from", member<&SwitchReport::from>},
    {"to", member<&SwitchReport::to>},
    {"why", member<&SwitchReport::why>},
    {"samples_applied", member<&SwitchReport::samples>},
    {"requested_at", member<&SwitchReport::train_seconds>, true},
    {"in_force_after_s", member<&SwitchReport::in_force_s>},
    {"first_update_after_s", member<&SwitchReport::first_update_s>},
    {"slowest_own_s", member<&SwitchReport::slowest_own_s>},
});

template <>
inline constexpr auto kFields<Candidate> = std::to_array<Field<Candidate>>({
    {"plan", member<&Candidate::plan>},
    {"samples_per_s", member<&Candidate::samples_s>},
    {"batch_efficiency", member<&Candidate::batch_efficiency>},
    {"staleness_efficiency", member<&Candidate::staleness_efficiency>},
    {"rate", member<&Candidate::rate>},
});

template <>
inline constexpr auto kFields<DecisionRecord> = std::to_array<Field<DecisionRecord>>({
    {"chooser", member<&DecisionRecord::chooser>},
    {"from", member<&DecisionRecord::from>},
    {"to", member<&DecisionRecord::to>},
    {"reason", member<&DecisionRecord::reason>},
    {"train_s", member<&DecisionRecord::seconds>},
    {"samples_applied", member<&DecisionRecord::samples>},
    {"decide_s", member<&DecisionRecord::decide_s>},
    {"stragglers", member<&DecisionRecord::stragglers>},
    {"held_s", member<&DecisionRecord::held_s>},
    {"measured_samples_per_s", member<&DecisionRecord::measured_samples_s>},
    {"measured_loss_fall_per_s", member<&DecisionRecord::measured_loss_fall_s>},
    {"candidates", member<&DecisionRecord::candidates>},
});

template <>
inline constexpr auto kFields<StragglerEpisode> = std::to_array<Field<StragglerEpisode>>({
    {"worker", member<&StragglerEpisode::worker>, true},
    {"cause", member<&StragglerEpisode::cause>},
    {"by_lag", member<&StragglerEpisode::by_lag>},
    {"begin_s", member<&StragglerEpisode::begin_s>, true},
    {"end_s", member<&StragglerEpisode::end_s>, true},
    {"iterations", member<&StragglerEpisode::iterations>},
    {"slowdown", member<&StragglerEpisode::slowdown>},
});

template <>
inline constexpr auto kFields<RankChange> = std::to_array<Field<RankChange>>({
    {"samples_applied", member<&RankChange::samples_applied>},
    {"train_s", member<&RankChange::train_s>, true},
    {"rank", member<&RankChange::rank>},
    {"worker", member<&RankChange::worker>, true},
    {"reason", member<&RankChange::reason>},
    {"live", member<&RankChange::live>},
});

template <>
inline constexpr auto kFields<RunCheckpoint> = std::to_array<Field<RunCheckpoint>>({
    {"samples_applied", member<&RunCheckpoint::samples_applied>},
    {"path", member<&RunCheckpoint::path>},
    {"pause_s", member<&RunCheckpoint::pause_s>},
    {"error", member<&RunCheckpoint::error>},
});

template <>
inline constexpr auto kFields<DroppedBatch> = std::to_array<Field<DroppedBatch>>({
    {"samples_applied", member<&DroppedBatch::samples_applied>},
    {"samples", member<&DroppedBatch::samples>},
    {"reason", member<&DroppedBatch::reason>},
});

void features(RateWindow& window, const element& value) {
    for (std::size_t term = 0; term < RateFeatures::kTerms; ++term) {
        window.features.values[term] = value[RateFeatures::kNames[term]];
    }
}

template <>
inline constexpr auto kFields<RateWindow> = std::to_array<Field<RateWindow>>({
    {"samples_applied", member<&RateWindow::samples>, true},
    {"train_s", member<&RateWindow::seconds>, true},
    {"plan", member<&RateWindow::plan>, true},
    {"log_rate", member<&RateWindow::log_rate>, true},
    {"features", features, true},
});

template <>
inline constexpr auto kFields<RunFailure> = std::to_array<Field<RunFailure>>({
    {"message", member<&RunFailure::message>},
    {"exit_code", member<&RunFailure::exit_code>},
});

template <>
inline constexpr auto kFields<WorkerTotal> = std::to_array<Field<WorkerTotal>>({
    {"samples", member<&WorkerTotal::samples>},
    {"pushes", member<&WorkerTotal::pushes>},
    {"refused", member<&WorkerTotal::refused>},
    {"own_s", member<&WorkerTotal::own_s>},
    {"samples_per_s", member<&WorkerTotal::samples_per_s>},
    {"lag_mean", member<&WorkerTotal::lag_mean>},
    {"lag_max", member<&WorkerTotal::lag_max>},
    {"lost", member<&WorkerTotal::lost>},
    {"live", member<&WorkerTotal::live>},
});

template <>
inline constexpr auto kFields<RunSummary> = std::to_array<Field<RunSummary>>({
    {"samples_applied", member<&RunSummary::samples_applied>},
    {"samples_returned", member<&RunSummary::samples_returned>},
    {"returned_non_finite", returned<ReturnReason::kNonFinite>},
    {"returned_void_round", returned<ReturnReason::kVoidRound>},
    {"returned_stop", returned<ReturnReason::kStop>},
    {"returned_dropped", returned<ReturnReason::kDropped>},
    {"returned_interrupted", returned<ReturnReason::kInterrupted>},
    {"returned_lost", returned<ReturnReason::kLost>},
    {"updates", member<&RunSummary::updates>},
    {"lag_mean", member<&RunSummary::lag_mean>},
    {"lag_max", member<&RunSummary::lag_max>},
    {"switches", member<&RunSummary::switches>},
    {"regroupings", member<&RunSummary::regroupings>},
    {"stragglers_brief", member<&RunSummary::stragglers_brief>},
    {"lost", member<&RunSummary::lost>},
    {"by_worker", member<&RunSummary::workers>},
    {"tta_s", member<&RunSummary::tta_s>},
    {"wall_s", member<&RunSummary::wall_s>},
    {"train_s", member<&RunSummary::train_s>},
    {"samples_per_s", member<&RunSummary::samples_per_s>},
    {"bytes_sent", member<&RunSummary::bytes_sent>},
    {"cpu_s", member<&RunSummary::cpu_s>},
    {"stop_reason", member<&RunSummary::stop_reason>},
});

template <class Record>
Record record_of(const element& line) {
    Record record;
    read(line, record);
    return record;
}

RunHeader start_of(const element& line, bool resumed) {
    auto start = record_of<RunHeader>(line);
    start.resumed = resumed;
    simdjson::dom::element options;
    const bool listed = line["options"].get(options) == simdjson::SUCCESS;
    for (const auto [name, value] : object(listed ? options : line)) {
        if (value.is_string()) {
            start.fields.emplace_back(name, std::string_view(value));
        } else if (!value.is_array() && !value.is_object()) {
            start.fields.emplace_back(name, value.is_null() ? "" : simdjson::minify(value));
        }
    }
    return start;
}

RankChange rank_of(const element& line, bool joined) {
    auto change = record_of<RankChange>(line);
    change.joined = joined;
    return change;
}

/// Every event but `train`.
void report(std::string_view event, const element& line, RunLogVisitor& visitor) {
    if (event == "evaluation") {
        visitor.on_evaluation(record_of<RunEvaluation>(line));
    } else if (event == "switch" || event == "regrouping") {
        visitor.on_change(record_of<SwitchReport>(line));
    } else if (event == "decision") {
        visitor.on_decision(record_of<DecisionRecord>(line));
    } else if (event == "straggler" || event == "straggler_end") {
        visitor.on_straggler(record_of<StragglerEpisode>(line), event == "straggler_end");
    } else if (event == "checkpoint") {
        visitor.on_checkpoint(record_of<RunCheckpoint>(line));
    } else if (event == "dropped") {
        visitor.on_dropped(record_of<DroppedBatch>(line));
    } else if (event == "rate") {
        visitor.on_rate(record_of<RateWindow>(line));
    } else if (event == "lost" || event == "joined") {
        visitor.on_rank(rank_of(line, event == "joined"));
    } else if (event == "start" || event == "resume") {
        visitor.on_start(start_of(line, event == "resume"));
    } else if (event == "error") {
        visitor.on_failure(record_of<RunFailure>(line));
    } else if (event == "summary") {
        visitor.on_summary(record_of<RunSummary>(line));
    }
}

}  // namespace

simdjson::simdjson_result<element> RunLineParser::parse(std::string& text, std::size_t begin,
                                                        std::size_t end) {
    text.reserve(text.size() + simdjson::SIMDJSON_PADDING);
    return parser_.parse(text.data() + begin, end - begin, false);
}

std::string RunLineParser::take(std::string& text, std::size_t begin, std::size_t end,
                                RunLogVisitor& visitor) {
    element line;
    std::string_view event;
    if (const auto error = parse(text, begin, end).get(line); error != simdjson::SUCCESS) {
        return simdjson::error_message(error);
    }
    if (line["event"].get(event) != simdjson::SUCCESS) {
        return "no object with an event";
    }
    try {
        if (event == "train") {
            std::vector<WorkerWindow> workers = std::move(window_.workers);
            workers.clear();
            window_ = {};
            window_.workers = std::move(workers);
            read(line, window_);
            visitor.on_train(window_);
        } else {
            report(event, line, visitor);
        }
    } catch (const LineFault& fault) {
        return fault.what();
    }
    return {};
}

bool RunLineParser::is_whole(std::string& text) {
    return parse(text, 0, text.size()).is_object();
}

}  // namespace cohort
