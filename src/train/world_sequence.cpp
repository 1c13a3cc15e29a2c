#include "train/world_sequence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cohort/core/error.hpp"
#include "core/log.hpp"
#include "core/units.hpp"
#include "train/mirror/mirror_recovery.hpp"
#include "train/run/run_folder.hpp"

namespace cohort {
namespace {

WorldOptions world_options(const TrainOptions& options) {
    return {.servers = options.servers,
            .stall_limit_s = options.stall_limit_s,
            .lost_after_s = options.lost_after_s,
            .chunk_bytes = options.chunk_bytes,
            .device = options.device,
            .server_device = options.server_device};
}

/// Why the ranks that are left cannot go on; empty: they can.
std::string obstacle(const TrainOptions& options, int ranks, int gone) {
    if (ranks <= options.servers) {
        return fmt::format("{} left, too few for {} and a worker",
                           counted(ranks, "rank is", "ranks are"),
                           counted(options.servers, "server"));
    }
    if (options.max_lost >= 0 && gone > options.max_lost) {
        return "more ranks are lost than --max-lost allows";
    }
    return "";
}

}  // namespace

WorldSequence::WorldSequence(const TrainOptions& options) {
    worlds_.push_back(std::make_unique<World>(world_options(options)));
}

void WorldSequence::describe(TrainEnvironment& environment) {
    environment.world = &current();
    environment.mirrors = &mirrors_;
    environment.losses = losses_;
}

bool WorldSequence::go_on(TrainOptions& options) {
    World& lost = current();
    const World::Survivors survivors = lost.retire();
    const bool leads = survivors.ranks.front() == lost.rank();
    const auto ranks = static_cast<int>(survivors.ranks.size());
    const int gone = lost.size() - ranks;
    if (options.servers > 0) {
        const auto servers = std::ranges::count_if(
            survivors.ranks, [&](int rank) { return rank < options.servers; });
        options.servers = std::max(1, static_cast<int>(servers));
    }
    if (const std::string why = obstacle(options, ranks, gone); !why.empty()) {
        const std::string text = fmt::format("{}; {}", survivors.reason, why);
        if (leads) {
            write_exit_code(options.out, ExitCode::kPeer, text);
        }
        throw PeerError(leads ? text : "");
    }
    options.max_lost = options.max_lost < 0 ? options.max_lost : options.max_lost - gone;
    options.resume = true;
    options.overwrite = false;
    losses_.push_back(survivors.reason);
    if (leads) {
        log_warn("{}; {} on, with {} and {}", survivors.reason,
                 counted(ranks, "rank goes", "ranks go"), counted(options.servers, "server"),
                 counted(ranks - options.servers, "worker"));
    }
    WorldOptions next = world_options(options);
    next.predecessor = &lost;
    worlds_.push_back(std::make_unique<World>(next));
    std::string nothing;
    const bool ended = leads && std::filesystem::exists(RunFolder(options.out).exit_code);
    if (current().agree(ended ? ExitCode::kRequeue : ExitCode::kDone, nothing) != ExitCode::kDone) {
        return false;
    }
    save_newest_mirror(current(), mirrors_, options);
    return true;
}

}  // namespace cohort
