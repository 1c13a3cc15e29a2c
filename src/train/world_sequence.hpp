#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cohort/comm/world.hpp"
#include "cohort/train/options.hpp"
#include "cohort/train/trainer.hpp"
#include "train/mirror/mirror_store.hpp"

namespace cohort {

/// The Worlds of one run: the first one is all ranks that were started, each later one is formed by
/// the ranks that are left when the one before has lost rank 0 or a server.
class WorldSequence {
public:
    /// Collective. Errors: those of World::World.
    explicit WorldSequence(const TrainOptions& options);

    [[nodiscard]] World& current() noexcept { return *worlds_.back(); }
    /// Sets what a run in the current World has of it.
    void describe(TrainEnvironment& environment);

    /// Once a run has ended with WorldLost: forms the next World, and changes the options to those
    /// with which the run goes on there: from the newest state that the ranks hold in memory, or
    /// the newest checkpoint. A server that is lost is not replaced, unless it was the only one.
    /// Collective. Errors: on all ranks, with a text on one, PeerError when too few ranks are left,
    /// or more are lost than --max-lost allows.
    /// @return false: the run had ended, and its exit code is in the output folder
    [[nodiscard]] bool go_on(TrainOptions& options);

private:
    MirrorStore mirrors_;
    std::vector<std::unique_ptr<World>> worlds_;
    std::vector<std::string> losses_;  ///< that ended them
};

}  // namespace cohort
