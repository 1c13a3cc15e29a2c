#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "cohort/core/error.hpp"
#include "cohort/data/hdf5_thread.hpp"
#include "cohort/sim/simulation.hpp"
#include "data/hdf5/store.hpp"
#include "support/core/child_process.hpp"
#include "support/core/message_of.hpp"
#include "support/core/temp_folder.hpp"

namespace cohort {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Every field has a value that no other field has.
class Numbers {
public:
    template <class T>
    void into(T& field) {
        field = static_cast<T>(++last_);
    }
    void into(double& field) { field = ++last_ + 0.1; }
    void into(std::optional<double>& field) { field = ++last_ + 0.3; }
    void into(std::string& field) { field = fmt::format("text {}", ++last_); }

private:
    int last_ = 0;
};

WorkerReport a_worker(Numbers& n) {
    WorkerReport one;
    one.live = false;
    n.into(one.samples), n.into(one.pushes), n.into(one.discounted), n.into(one.over_bound);
    for (std::int64_t& refused : one.refused) {
        n.into(refused);
    }
    n.into(one.own_s), n.into(one.last_own_s), n.into(one.lag), n.into(one.lag_sum);
    n.into(one.lag_max), n.into(one.lag_updates_sum), n.into(one.lost);
    return one;
}

SwitchReport a_switch(Numbers& n) {
    SwitchReport one;
    n.into(one.from), n.into(one.to), n.into(one.why), n.into(one.samples);
    n.into(one.train_seconds), n.into(one.in_force_s), n.into(one.first_update_s);
    n.into(one.slowest_own_s);
    return one;
}

DecisionRecord a_decision(Numbers& n) {
    DecisionRecord one{.candidates = {{.plan = "static:7",
                                       .samples_s = 1.0 / 3,
                                       .batch_efficiency = 0.1,
                                       .staleness_efficiency = 0.7,
                                       .rate = 1e-17},
                                      {.plan = "dynamic balanced", .samples_s = 8192}},
                       .stragglers = {3, 11}};
    n.into(one.seconds), n.into(one.samples), n.into(one.chooser), n.into(one.from);
    n.into(one.to), n.into(one.reason), n.into(one.held_s), n.into(one.measured_samples_s);
    n.into(one.measured_loss_fall_s);
    return one;
}

RateWindow a_window(Numbers& n) {
    RateWindow one;
    n.into(one.seconds), n.into(one.samples), n.into(one.plan), n.into(one.log_rate);
    for (double& value : one.features.values) {
        n.into(value);
    }
    return one;
}

void fill_tables(Numbers& n, SimulationResult& r) {
    r.workers = {a_worker(n), {}, a_worker(n)};
    for (auto* times : {&r.worker_busy_s, &r.worker_wait_s, &r.worker_cpu_s, &r.worker_bytes}) {
        times->resize(3);
        n.into(times->at(0)), n.into(times->at(2));
    }
    r.servers.resize(2);
    ServerUse& server = r.servers[1];
    n.into(server.node), n.into(server.cpu_core_s), n.into(server.rx_bytes);
    n.into(server.tx_bytes), n.into(server.busy_s);
    r.evaluations.resize(2);
    EvaluationPoint& point = r.evaluations[1];
    n.into(point.virtual_s), n.into(point.samples_applied), n.into(point.accuracy);
    n.into(point.loss), n.into(point.test_samples);
    n.into(point.average_accuracy), n.into(point.average_loss);
    r.switches = {a_switch(n), {}, a_switch(n)};
    r.decisions = {a_decision(n), {}, a_decision(n)};
    r.windows = {a_window(n), {}, a_window(n)};
    r.lag_histogram = {3, 0, 5};
    r.lanes = {{.worker = 1, .kind = LaneSpan::Kind::kLost, .begin_s = 0.25, .end_s = 0.75},
               {.worker = 0, .kind = LaneSpan::Kind::kDelay, .begin_s = 1, .end_s = 2}};
}

SimulationResult full_result() {
    Numbers n;
    SimulationResult r;
    r.options = {{"mode", "static:4"}, {"batch", "64"}, {"data", ""}};
    n.into(r.command), n.into(r.stop_reason), n.into(r.virtual_s), n.into(r.samples_applied);
    n.into(r.updates), n.into(r.events);
    r.digest = ~std::uint64_t{6};
    n.into(r.tta_virtual_s), r.samples_to_target = 4711;
    n.into(r.accuracy), n.into(r.loss), n.into(r.healthy_iteration_s);
    n.into(r.ideal_samples_s);
    n.into(r.accounts.leased), n.into(r.accounts.applied), n.into(r.accounts.discounted);
    n.into(r.accounts.over_bound), n.into(r.accounts.outstanding);
    for (std::int64_t& returned : r.accounts.returned) {
        n.into(returned);
    }
    fill_tables(n, r);
    n.into(r.lanes_from_s), n.into(r.wall_s), n.into(r.engine_core_s), n.into(r.peak_bytes);
    n.into(r.threads), n.into(r.samples_computed), n.into(r.buffer_bytes);
    return r;
}

void expect_equal(const WorkerReport& a, const WorkerReport& b) {
    EXPECT_EQ(
        std::tie(a.live, a.samples, a.pushes, a.discounted, a.over_bound, a.refused, a.own_s),
        std::tie(b.live, b.samples, b.pushes, b.discounted, b.over_bound, b.refused, b.own_s));
    EXPECT_EQ(std::tie(a.last_own_s, a.lag, a.lag_sum, a.lag_max, a.lag_updates_sum, a.lost),
              std::tie(b.last_own_s, b.lag, b.lag_sum, b.lag_max, b.lag_updates_sum, b.lost));
}

void expect_equal(const ServerUse& a, const ServerUse& b) {
    EXPECT_EQ(std::tie(a.node, a.cpu_core_s, a.rx_bytes, a.tx_bytes, a.busy_s),
              std::tie(b.node, b.cpu_core_s, b.rx_bytes, b.tx_bytes, b.busy_s));
}

void expect_equal(const EvaluationPoint& a, const EvaluationPoint& b) {
    EXPECT_EQ(std::tie(a.virtual_s, a.samples_applied, a.accuracy, a.loss, a.test_samples,
                       a.average_accuracy, a.average_loss),
              std::tie(b.virtual_s, b.samples_applied, b.accuracy, b.loss, b.test_samples,
                       b.average_accuracy, b.average_loss));
}

void expect_equal(const SwitchReport& a, const SwitchReport& b) {
    EXPECT_EQ(std::tie(a.from, a.to, a.why, a.samples, a.train_seconds, a.in_force_s,
                       a.first_update_s, a.slowest_own_s),
              std::tie(b.from, b.to, b.why, b.samples, b.train_seconds, b.in_force_s,
                       b.first_update_s, b.slowest_own_s));
}

void expect_equal(const Candidate& a, const Candidate& b) {
    EXPECT_EQ(std::tie(a.plan, a.samples_s, a.batch_efficiency, a.staleness_efficiency, a.rate),
              std::tie(b.plan, b.samples_s, b.batch_efficiency, b.staleness_efficiency, b.rate));
}

template <class Row>
void expect_equal(const std::vector<Row>& a, const std::vector<Row>& b);

void expect_equal(const DecisionRecord& a, const DecisionRecord& b) {
    EXPECT_EQ(std::tie(a.seconds, a.samples, a.chooser, a.from, a.to, a.reason, a.stragglers),
              std::tie(b.seconds, b.samples, b.chooser, b.from, b.to, b.reason, b.stragglers));
    EXPECT_EQ(std::tie(a.held_s, a.measured_samples_s, a.measured_loss_fall_s),
              std::tie(b.held_s, b.measured_samples_s, b.measured_loss_fall_s));
    expect_equal(a.candidates, b.candidates);
}

void expect_equal(const RateWindow& a, const RateWindow& b) {
    EXPECT_EQ(std::tie(a.seconds, a.samples, a.plan, a.features.values, a.log_rate),
              std::tie(b.seconds, b.samples, b.plan, b.features.values, b.log_rate));
}

void expect_equal(const LaneSpan& a, const LaneSpan& b) {
    EXPECT_EQ(std::tie(a.worker, a.kind, a.begin_s, a.end_s),
              std::tie(b.worker, b.kind, b.begin_s, b.end_s));
}

template <class Row>
void expect_equal(const std::vector<Row>& a, const std::vector<Row>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        expect_equal(a[i], b[i]);
    }
}

void expect_equal(const SimulationResult& a, const SimulationResult& b) {
    EXPECT_EQ(a.options, b.options);
    EXPECT_EQ(std::tie(a.command, a.stop_reason, a.virtual_s, a.samples_applied, a.updates,
                       a.events, a.digest, a.tta_virtual_s, a.samples_to_target, a.accuracy, a.loss,
                       a.healthy_iteration_s, a.ideal_samples_s),
              std::tie(b.command, b.stop_reason, b.virtual_s, b.samples_applied, b.updates,
                       b.events, b.digest, b.tta_virtual_s, b.samples_to_target, b.accuracy, b.loss,
                       b.healthy_iteration_s, b.ideal_samples_s));
    const EngineAccounts& x = a.accounts;
    const EngineAccounts& y = b.accounts;
    EXPECT_EQ(std::tie(x.leased, x.applied, x.discounted, x.over_bound, x.outstanding, x.returned),
              std::tie(y.leased, y.applied, y.discounted, y.over_bound, y.outstanding, y.returned));
    expect_equal(a.workers, b.workers);
    EXPECT_EQ(std::tie(a.worker_busy_s, a.worker_wait_s, a.worker_cpu_s, a.worker_bytes),
              std::tie(b.worker_busy_s, b.worker_wait_s, b.worker_cpu_s, b.worker_bytes));
    expect_equal(a.servers, b.servers);
    expect_equal(a.evaluations, b.evaluations);
    expect_equal(a.switches, b.switches);
    expect_equal(a.decisions, b.decisions);
    expect_equal(a.windows, b.windows);
    expect_equal(a.lanes, b.lanes);
    EXPECT_EQ(std::tie(a.lag_histogram, a.lanes_from_s, a.wall_s, a.engine_core_s, a.peak_bytes),
              std::tie(b.lag_histogram, b.lanes_from_s, b.wall_s, b.engine_core_s, b.peak_bytes));
    EXPECT_EQ(std::tie(a.threads, a.samples_computed, a.buffer_bytes),
              std::tie(b.threads, b.samples_computed, b.buffer_bytes));
}

TEST(ResultFileTest, GivesBackEveryField) {
    const TempFolder folder;
    const SimulationResult result = full_result();
    write_result(folder.file("made/on/the/way"), result);
    expect_equal(read_result(folder.file("made/on/the/way/result.h5")), result);
}

TEST(ResultFileTest, GivesBackWhatIsMissingAsMissing) {
    const TempFolder folder;
    SimulationResult result;
    result.switches.resize(1);
    write_result(folder.path(), result);
    const SimulationResult read = read_result(folder.file("result.h5"));
    expect_equal(read, result);
    EXPECT_FALSE(read.ideal_samples_s || read.tta_virtual_s || read.samples_to_target ||
                 read.switches[0].in_force_s);
}

/// Copies the numbers of a result alone, as a program would have written it that knows no tables.
void write_numbers_alone(const std::string& from, const std::string& to) {
    Hdf5Thread thread;
    const StoreReader whole(from, thread);
    StoreWriter writer(to, whole.format(), thread);
    const auto copy = [&](const std::string& group, const std::string& name, auto kind) {
        writer.set(group, name, whole.attribute<decltype(kind)>(group, name));
    };
    for (const char* name : {"command", "stop_reason"}) {
        copy("/", name, std::string());
    }
    for (const char* name : {"virtual_s", "accuracy", "loss", "healthy_iteration_s", "lanes_from_s",
                             "wall_s", "engine_core_s"}) {
        copy("/", name, double());
    }
    for (const char* name : {"samples_applied", "updates", "threads", "samples_computed"}) {
        copy("/", name, std::int64_t());
    }
    for (const char* name : {"events", "digest", "buffer_bytes", "peak_bytes"}) {
        copy("/", name, std::uint64_t());
    }
    for (const char* name : {"leased", "applied", "discounted", "over_bound", "outstanding"}) {
        copy("/accounts", name, std::int64_t());
    }
    for (const char* reason : kReturnReasonNames) {
        copy("/accounts", std::string("returned_") + reason, std::int64_t());
    }
    writer.commit();
}

TEST(ResultFileTest, ReadsAFileThatLacksTables) {
    const TempFolder folder;
    const SimulationResult result = full_result();
    write_result(folder.path(), result);
    write_numbers_alone(folder.file("result.h5"), folder.file("old.h5"));
    const SimulationResult read = read_result(folder.file("old.h5"));
    EXPECT_EQ(read.command, result.command);
    EXPECT_EQ(read.accounts.returned, result.accounts.returned);
    EXPECT_TRUE(read.workers.empty() && read.lanes.empty() && read.options.empty());
}

TEST(ResultFileTest, ReplacesTheFileWhole) {
    const TempFolder folder;
    write_result(folder.path(), full_result());
    SimulationResult second;
    second.command = "the second";
    write_result(folder.path(), second);
    EXPECT_EQ(read_result(folder.file("result.h5")).command, "the second");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{}), 1);
}

TEST(ResultFileTest, RefusesOtherFiles) {
    const TempFolder folder;
    {
        Hdf5Thread thread;
        StoreWriter other(folder.file("other.h5"), {"cohort-checkpoint", 1}, thread);
        other.commit();
    }
    EXPECT_THAT(
        [&] { (void)read_result(folder.file("other.h5")); },
        ThrowsMessage<FileError>(AllOf(HasSubstr("other.h5"), HasSubstr("cohort-simulation"))));
    EXPECT_THROW((void)read_result(folder.file("none.h5")), FileError);
}

TEST(ResultFileTest, FoldersAreCheckedBeforeARun) {
    const TempFolder folder;
    EXPECT_NO_THROW(check_result_folder(folder.file("not/yet"), false));
    EXPECT_NO_THROW(check_result_folder(folder.path(), false));
    write_result(folder.path(), {});
    EXPECT_NO_THROW(check_result_folder(folder.path(), true));
    EXPECT_THAT([&] { check_result_folder(folder.path(), false); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("result.h5"), HasSubstr("--overwrite"))));
    EXPECT_THROW(check_result_folder(folder.file("result.h5") + "/below", true), FileError);
}

TEST(ResultFileTest, ADiskThatIsFullLeavesTheOldFile) {
    const TempFolder folder;
    write_result(folder.path(), {});
    EXPECT_TRUE(in_child([&] {
        limit_file_size(4096);
        SimulationResult large = full_result();
        large.lag_histogram.assign(100000, 1);
        const std::string error =
            test::message_of<FileError>([&] { write_result(folder.path(), large); });
        return error.find("result.h5") != std::string::npos;
    }));
    EXPECT_EQ(read_result(folder.file("result.h5")).command, "");
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator{}), 1);
}

TEST(ResultFileTest, H5pyReadsIt) {
    const TempFolder folder;
    write_result(folder.path(), full_result());
    const std::string command =
        fmt::format("'{}' '{}/tests/tools/h5py_result.py' '{}/docs/simulate.md' '{}/result.h5'",
                    COHORT_TEST_PYTHON, COHORT_TEST_SOURCE, COHORT_TEST_SOURCE, folder.path());
    EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(ResultFileTest, AKindThatIsNoneIsRefused) {
    const TempFolder folder;
    const auto refused = [&folder](const SimulationResult& result, const std::string& column) {
        write_result(folder.path(), result);
        EXPECT_THAT(test::message_of<FileError>([&] {
                        (void)read_result((fs::path(folder.path()) / kResultFile).string());
                    }),
                    testing::HasSubstr(column));
    };
    SimulationResult lanes;
    lanes.lanes = {{.worker = 0, .kind = static_cast<LaneSpan::Kind>(99)}};
    refused(lanes, "/lanes/kind");
    SimulationResult stragglers;
    stragglers.stragglers = {{.worker = 0, .cause = static_cast<StragglerCause>(99)}};
    refused(stragglers, "/stragglers/cause");
}

}  // namespace
}  // namespace cohort
