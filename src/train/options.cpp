#include "cohort/train/options.hpp"

#include <fmt/format.h>

#include <cmath>

#include "cohort/core/error.hpp"
#include "cohort/core/thread_team.hpp"

namespace cohort {
namespace {

void require(bool holds, const char* option, const std::string& expected, const std::string& got) {
    if (!holds) {
        fail<UsageError>({.where = option,
                          .what = "the value cannot be used",
                          .expected = expected,
                          .got = got});
    }
}

void check_one_rank(const TrainOptions& options, int world_size) {
    if (world_size > 1) {
        fail<UsageError>({.where = "cohort train",
                          .what = "this build trains on one rank",
                          .expected = "a world of 1 rank",
                          .got = fmt::format("{} ranks", world_size),
                          .hint = "without mpirun"});
    }
    if (options.arch != "ring" || options.mode != "ring" || options.servers != 0) {
        fail<UsageError>({.where = "--arch, --mode, --servers",
                          .what = "this build trains on one rank, which is a ring of one",
                          .expected = "--arch ring --mode ring --servers 0",
                          .got = fmt::format("--arch {} --mode {} --servers {}", options.arch,
                                             options.mode, options.servers),
                          .hint = "leaving the three options out"});
    }
}

void check_budget(const TrainOptions& o) {
    require(o.samples >= 0, "--samples", ">= 1", std::to_string(o.samples));
    require(o.epochs >= 0, "--epochs", ">= 1", std::to_string(o.epochs));
    if (o.samples > 0 && o.epochs > 0) {
        fail<UsageError>({.where = "--samples, --epochs",
                          .what = "both set the length of the run",
                          .expected = "one of them"});
    }
}

}  // namespace

void check_options(const TrainOptions& o, int world_size) {
    check_one_rank(o, world_size);
    require(!o.data.empty(), "--data", "a dataset file (see cohort import)", "nothing");
    require(!o.out.empty(), "--out", "a folder for the results", "nothing");
    check_budget(o);
    require(o.batch >= 1, "--batch", ">= 1", std::to_string(o.batch));
    require(o.lr > 0 && std::isfinite(o.lr), "--lr", "> 0 and finite", std::to_string(o.lr));
    require(o.momentum >= 0 && o.momentum < 1, "--momentum", "0 <= M < 1",
            std::to_string(o.momentum));
    require(o.weight_decay >= 0, "--weight-decay", ">= 0", std::to_string(o.weight_decay));
    require(o.warmup_samples >= 0, "--warmup-samples", ">= 0", std::to_string(o.warmup_samples));
    const std::string most = std::to_string(kMaxThreads);
    require(o.threads >= 0 && o.threads <= kMaxThreads, "--threads",
            "1 to " + most + ", or 0 for all cores", std::to_string(o.threads));
    require(o.loader_threads >= 1 && o.loader_threads <= kMaxThreads, "--loader-threads",
            "1 to " + most, std::to_string(o.loader_threads));
    require(o.target_accuracy >= 0 && o.target_accuracy <= 1, "--target-accuracy", "0..1",
            std::to_string(o.target_accuracy));
    require(o.eval_every_samples >= 0, "--eval-every-samples", ">= 0",
            std::to_string(o.eval_every_samples));
    require(o.checkpoint_every_s >= 0, "--checkpoint-every-s", ">= 0",
            std::to_string(o.checkpoint_every_s));
    require(o.checkpoint_every_samples >= 0, "--checkpoint-every-samples", ">= 0",
            std::to_string(o.checkpoint_every_samples));
    require(o.keep_checkpoints >= 1, "--keep-checkpoints", ">= 1",
            std::to_string(o.keep_checkpoints));
    require(o.log_every_s > 0, "--log-every-s", "> 0", std::to_string(o.log_every_s));
    require(!o.resume || !o.overwrite, "--resume, --overwrite", "one of them", "both");
}

}  // namespace cohort
