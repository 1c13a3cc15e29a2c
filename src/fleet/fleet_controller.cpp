#include "fleet/fleet_controller.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "cohort/core/output.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"
#include "core/system/process_usage.hpp"
#include "core/units.hpp"
#include "fleet/fleet_use.hpp"
#include "fleet/train_jobs.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

/// Between two looks at signals.
constexpr Clock::Seconds kLook{0.1};

/// Ranks of each node, without the controller.
std::vector<std::vector<int>> ranks_by_node(const RankMap& map) {
    std::vector<std::vector<int>> ranks;
    for (int node = 0; node < map.nodes(); ++node) {
        ranks.push_back(map.on_node(node));
        std::erase(ranks.back(), 0);
    }
    return ranks;
}

std::vector<int> counts(const std::vector<std::vector<int>>& ranks) {
    std::vector<int> sizes;
    for (const std::vector<int>& of_node : ranks) {
        sizes.push_back(static_cast<int>(of_node.size()));
    }
    return sizes;
}

/// Every job can start some time.
void check_sizes(const RealFleet& fleet, int ranks) {
    for (std::size_t job = 0; job < fleet.jobs.size(); ++job) {
        const int wanted = ranks_of(fleet.plan.jobs[job], fleet.jobs[job]);
        if (wanted > ranks) {
            fail<UsageError>({.where = fleet.plan.jobs[job].place,
                              .what = "the job can never start",
                              .expected = fmt::format("at most {} ranks beside the fleet's "
                                                      "controller, rank 0",
                                                      ranks),
                              .got = fmt::format("{} with its servers", wanted),
                              .hint = fmt::format("mpirun -n {}", wanted + 1)});
        }
    }
}

void end_rank(RankPool& pool, int rank, FleetOrder order, ExitCode code) {
    order.ends = true;
    order.exit_code = static_cast<std::int32_t>(code);
    pool.send(rank, encode(order));
}

std::string as_text(const FleetResult& result) {
    const FleetSummary all = summarise(result);
    return fmt::format("{} of {} done, {} failed", all.ended, counted(result.jobs.size(), "job"),
                       all.failed);
}

}  // namespace

FleetController::FleetController(RankPool& pool, const RealFleet& fleet)
    : pool_(pool),
      fleet_(fleet),
      free_(ranks_by_node(pool.map())),
      queue_(counts(free_)),
      room_(fleet.card_bytes_s > 0 ? fleet.plan.make_room : RoomRule::kOff,
            std::vector<NodeCapacity>(free_.size(), {.cores = static_cast<double>(fleet.cores),
                                                     .rx_bytes_s = fleet.card_bytes_s,
                                                     .tx_bytes_s = fleet.card_bytes_s})) {
    check_sizes(fleet, pool.size() - 1);
    check_fleet_folder(fleet.out, fleet.overwrite || fleet.resume);
    check_output_folder(fleet.out, {"run.lock", "exit_code"}, {});
    result_.real = true;
    result_.label = fleet.plan.label;
    result_.file = fleet.plan.file;
    result_.settings = fleet.plan.settings;
    result_.nodes = static_cast<int>(free_.size());
    result_.devices_per_node = std::ranges::max(counts(free_));
    result_.seed = fleet.plan.seed;
    for (const FleetJob& job : fleet.plan.jobs) {
        result_.jobs.push_back(planned(job));
    }
    for (std::size_t job = 0; job < fleet.jobs.size(); ++job) {
        TrainOptions options = fleet.jobs[job];
        options.resume = fleet.resume;
        check_run_folder(options);
        result_.jobs[job].servers = options.servers;
    }
    if (fleet.resume) {
        resume();
    }
    for (std::size_t job = fleet.jobs.size(); job > 0; --job) {
        if (!result_.jobs[job - 1].ended()) {
            coming_.push_back(job - 1);
        }
    }
    lock_.emplace(fleet.out);
    std::filesystem::remove(std::filesystem::path(fleet.out) / "exit_code");
}

/// Jobs that have ended stay as they are; the clock goes on where the record ends.
void FleetController::resume() {
    const std::string file = (std::filesystem::path(fleet_.out) / kFleetFile).string();
    if (!std::filesystem::exists(file)) {
        log_info("no {}: starting at the beginning", file);
        return;
    }
    const FleetResult found = read_fleet_result(file);
    check_same_fleet(found, fleet_.plan, true, file);
    for (std::size_t job = 0; job < result_.jobs.size(); ++job) {
        const FleetJobResult& kept = found.jobs[job];
        FleetJobResult& now = result_.jobs[job];
        if (kept.ended()) {
            now = kept;
        } else {
            now.start_s = kept.start_s;
            now.busy_s = kept.busy_s;
            now.wait_s = kept.wait_s;
        }
    }
    if (found.nodes == result_.nodes) {
        result_.use = found.use;
    }
    time_.before_s = found.makespan_s;
    room_.resume(found.grants.value_or(FleetGrants()));
    log_info("resuming {}: {} of {} done", file,
             std::ranges::count_if(result_.jobs, &FleetJobResult::ended),
             counted(result_.jobs.size(), "job"));
}

FleetResult FleetController::run() {
    time_.begun = time_.clock.now();
    while (true) {
        result_.stopped = result_.stopped || fleet_.stop_requested();
        look();
        const bool over = coming_.empty() && queue_.waiting() == 0;
        if (running_.empty() && (over || result_.stopped)) {
            break;
        }
        Clock::Seconds limit = kLook;
        if (!coming_.empty() && !result_.stopped) {
            const double next_s = fleet_.plan.jobs[coming_.back()].arrival_s - now_s();
            limit = std::clamp(Clock::Seconds(next_s), Clock::Seconds(0), kLook);
        }
        if (const auto message = pool_.receive(limit)) {
            handle(message->from, decode<FleetReport>(message->body));
        }
        find_dead();
        make_room();
    }
    result_.makespan_s = now_s();
    result_.wall_s = now_s() - time_.before_s;
    room_.report(result_, now_s());
    result_.peak_bytes = process_peak_bytes();
    write_fleet(fleet_.out, result_);
    return std::move(result_);
}

void FleetController::look() {
    if (result_.stopped) {
        return;
    }
    while (!coming_.empty() && fleet_.plan.jobs[coming_.back()].arrival_s <= now_s()) {
        const std::size_t job = coming_.back();
        const int wanted = ranks_of(fleet_.plan.jobs[job], fleet_.jobs[job]);
        coming_.pop_back();
        if (wanted <= queue_.devices()) {
            queue_.submit(static_cast<int>(job), wanted);
        } else {
            give_up(job);
        }
    }
    // How far running jobs are is not known here: as if they ended in the order of their arrival.
    while (const auto next = queue_.next([](int job) { return static_cast<double>(job); })) {
        note_use();
        start(*next);
    }
}

void FleetController::start(const FleetQueue::Start& order) {
    const auto job = static_cast<std::size_t>(order.job);
    Running& running = running_[job];
    for (const int node : order.worker_nodes) {
        std::vector<int>& free = free_[static_cast<std::size_t>(node)];
        check_invariant(!free.empty(), "the queue knows which ranks are free");
        running.ranks.push_back(free.front());
        free.erase(free.begin());
    }
    constexpr int kNumbers = 30'000;  // MPI's tags end at 32767 at the latest
    const FleetOrder message{.job = job,
                             .ranks = running.ranks,
                             .number = started_++ % kNumbers,
                             .resume = fleet_.resume,
                             .plan = {}};
    FleetJobResult& kept = result_.jobs[job];
    const auto first_worker = order.worker_nodes.begin() + fleet_.jobs[job].servers;
    kept.server_nodes.assign(order.worker_nodes.begin(), first_worker);
    kept.worker_nodes.assign(first_worker, order.worker_nodes.end());
    kept.start_s = kept.start_s.value_or(now_s());
    kept.state = FleetJobState::kStopped;  // what remains of it if the fleet is killed
    log_info("job '{}': {} and {} start on ranks {}", kept.name, counted(kept.workers, "worker"),
             counted(kept.servers, "server"), fmt::join(running.ranks, ", "));
    for (const int rank : running.ranks) {
        pool_.send(rank, encode(message));
    }
    write();
}

void FleetController::handle(int from, const FleetReport& report) {
    const auto found = running_.find(report.job);
    if (found == running_.end()) {
        return;  // its process ends, or it was given up as silent
    }
    Running& running = found->second;
    if (report.runs) {
        room_.heard(report, now_s());
        if (!report.wish.plan.empty()) {
            const bool fits = room_.admits(report, now_s());
            pool_.post(
                from, encode(FleetOrder{
                          .job = report.job, .ranks = {}, .plan = report.wish.plan, .fits = fits}));
        }
        return;
    }
    if (report.speaks) {
        running.report = report;
    }
    if (report.gone) {
        running.report.error = running.report.error.empty() ? report.error : running.report.error;
        for (const int rank : running.ranks) {
            running.gone.insert(rank);
        }
    }
    running.free.insert(from);
    running.gone.insert(report.lost.begin(), report.lost.end());
    end_if_over(report.job);
}

/// Tells ranks whose job has another weight.
void FleetController::make_room() {
    for (const RealRoom::Weight& changed : room_.review_if_due(now_s())) {
        const Running& running = running_.at(changed.job);
        log_info("job '{}': its transfers have weight {:g}", result_.jobs[changed.job].name,
                 changed.weight);
        const auto message = encode(
            FleetOrder{.job = changed.job, .ranks = {}, .weight = changed.weight, .plan = {}});
        for (const int rank : running.ranks) {
            if (!running.free.contains(rank) && !running.gone.contains(rank)) {
                pool_.post(rank, message);
            }
        }
    }
}

/// A process that has ended says nothing any more.
void FleetController::find_dead() {
    std::vector<std::size_t> jobs;
    for (auto& [job, running] : running_) {
        for (const int rank : running.ranks) {
            if (!running.free.contains(rank) && pool_.died(rank)) {
                running.gone.insert(rank);
            }
        }
        give_up_the_silent(job, running);
        jobs.push_back(job);
    }
    for (const std::size_t job : jobs) {
        end_if_over(job);
    }
    for (std::vector<int>& of_node : free_) {
        const std::vector<int> ranks = of_node;
        for (const int rank : ranks) {
            if (pool_.died(rank)) {
                lose(rank);
            }
        }
    }
}

/// Processes on other hosts are not seen to end. Once a job has lost its rank 0, or is stopped, its
/// ranks report or end within the job's own limits; those that do neither are dead.
void FleetController::give_up_the_silent(std::size_t job, Running& running) {
    if (!result_.stopped && !running.gone.contains(running.ranks.front())) {
        return;
    }
    constexpr double kPatience = 60;  // a last checkpoint is written
    const TrainOptions& options = fleet_.jobs[job];
    const double limit_s = 2 * options.stall_limit_s + options.lost_after_s + kPatience;
    running.ending_since_s = running.ending_since_s.value_or(now_s());
    if (now_s() - *running.ending_since_s > limit_s) {
        std::ranges::copy_if(running.ranks, std::inserter(running.gone, running.gone.end()),
                             [&](int rank) { return !running.free.contains(rank); });
    }
}

/// A free rank is no more.
void FleetController::lose(int rank) {
    const int node = pool_.map().ranks[static_cast<std::size_t>(rank)].node;
    std::erase(free_[static_cast<std::size_t>(node)], rank);
    queue_.lose(node);
    log_warn("{} is lost, {} are left", pool_.map().describe(rank), queue_.devices());
    for (const int job : queue_.give_up()) {
        give_up(static_cast<std::size_t>(job));
    }
}

/// A job that waits does not fit any more.
void FleetController::give_up(std::size_t job) {
    FleetJobResult& kept = result_.jobs[job];
    kept.state = FleetJobState::kFailed;
    kept.error = fmt::format("it needs {} ranks, and {} are left of the fleet's",
                             ranks_of(fleet_.plan.jobs[job], fleet_.jobs[job]), queue_.devices());
    log_warn("job '{}' failed: {}", kept.name, kept.error);
    write();
}

void FleetController::end_if_over(std::size_t job) {
    const auto found = running_.find(job);
    if (found == running_.end()) {
        return;
    }
    const bool over = std::ranges::all_of(found->second.ranks, [&](int rank) {
        return found->second.free.contains(rank) || found->second.gone.contains(rank);
    });
    if (over) {
        const Running running = std::move(found->second);
        running_.erase(found);
        end(job, running);
    }
}

void FleetController::end(std::size_t job, const Running& running) {
    note_use();
    room_.end(job, now_s());
    const FleetReport& report = running.report;
    FleetJobResult& kept = result_.jobs[job];
    kept.state = report.state;
    kept.error = report.error;
    if (!report.speaks && kept.error.empty()) {
        kept.error = "its ranks have died";
    }
    kept.end_s = now_s();
    if (report.state == FleetJobState::kTarget) {
        kept.target_s = kept.end_s;
    }
    kept.samples = report.samples;
    kept.updates = report.updates;
    kept.switches = report.switches;
    kept.accuracy = report.accuracy;
    kept.busy_s += report.busy_s;
    kept.wait_s += report.wait_s;
    if (kept.state == FleetJobState::kFailed) {
        log_warn("job '{}' failed: {}", kept.name, kept.error);
    } else {
        log_info("job '{}' is over ({}): {} samples in {:.1f} s", kept.name, word_of(kept.state),
                 kept.samples, *kept.end_s - *kept.start_s);
    }
    queue_.finish(static_cast<int>(job));
    for (const int rank : running.ranks) {
        const int node = pool_.map().ranks[static_cast<std::size_t>(rank)].node;
        std::vector<int>& free = free_[static_cast<std::size_t>(node)];
        free.insert(std::ranges::upper_bound(free, rank), rank);
    }
    for (const int rank : running.gone) {
        lose(rank);
    }
    write();
}

void FleetController::note_use() {
    const double now = now_s();
    std::vector<FleetUsePoint>& use = result_.use;
    if (now <= (use.empty() ? 0 : use.back().time_s)) {
        return;
    }
    FleetUsePoint point{.time_s = now};
    for (std::size_t node = 0; node < free_.size(); ++node) {
        const auto all = pool_.map().on_node(static_cast<int>(node));
        const auto lent = static_cast<double>(all.size() - (node == 0 ? 1 : 0));  // lost ones too
        const auto free = static_cast<double>(free_[node].size());
        point.devices.push_back(lent > 0 ? 1 - free / lent : 0);
    }
    add_use(use, std::move(point));
}

/// For a fleet that is killed. A failure costs the record of this moment only.
void FleetController::write() {
    room_.report(result_, now_s());
    FleetResult so_far = result_;
    so_far.stopped = true;
    so_far.makespan_s = now_s();
    try {
        write_fleet(fleet_.out, so_far);
    } catch (const FileError& error) {
        log_warn("the result so far could not be written: {}", error.what());
    }
}

double FleetController::now_s() const {
    return time_.before_s + (time_.clock.now() - time_.begun).count();
}

void FleetController::end_ranks(ExitCode code) {
    const bool lost = queue_.devices() < pool_.size() - 1;
    for (const std::vector<int>& of_node : free_) {
        for (const int rank : of_node) {
            end_rank(pool_, rank, {.lost = lost}, code);
        }
    }
    pool_.finalize(lost);
}

FleetResult control_fleet(RankPool& pool, const RealFleet& fleet) {
    std::optional<FleetController> controller;
    try {
        controller.emplace(pool, fleet);
    } catch (const Error& error) {
        for (int rank = 1; rank < pool.size(); ++rank) {
            end_rank(pool, rank, {.started = false}, error.exit_code());
        }
        throw;
    }
    try {
        FleetResult result = controller->run();
        const ExitCode code = fleet_exit_code(result);
        write_exit_code(fleet.out, code, as_text(result));
        controller->end_ranks(code);
        return result;
    } catch (const Error& error) {
        write_exit_code(fleet.out, error.exit_code(), error.what());
        pool.abort(error.exit_code(), error.what());
    }
}

}  // namespace cohort
