#pragma once

#include <string>

#include "cohort/comm/world.hpp"
#include "cohort/train/options.hpp"
#include "train/mirror/mirror_store.hpp"

namespace cohort {

/// Collective, in a World that has followed another one, before there is a Trainer: when the ranks
/// hold a whole mirror that is newer than the newest checkpoint of options.out, it becomes a
/// checkpoint there. Afterwards nothing is held. What goes wrong with files is logged: the run goes
/// on from an older checkpoint.
void save_newest_mirror(World& world, MirrorStore& store, const TrainOptions& options);

}  // namespace cohort
