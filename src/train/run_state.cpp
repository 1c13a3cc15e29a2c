// What a run copies out of the device and into it: checkpoints and the model.
#include <fmt/format.h>

#include "cohort/core/error.hpp"
#include "cohort/core/log.hpp"
#include "lease_codec.hpp"
#include "run_folder.hpp"
#include "training_run.hpp"

namespace cohort {
namespace {

std::vector<float> host_copy(Stream& stream, std::span<const float> from) {
    std::vector<float> to(from.size());
    stream.copy(to.data(), from.data(), from.size_bytes());
    return to;
}

void restore_buffer(Stream& stream, const std::string& name, std::span<float> to,
                    std::span<const float> from) {
    if (to.size() != from.size()) {
        fail<FileError>({.where = "checkpoint " + name,
                         .what = "does not fit this run",
                         .expected = fmt::format("{} floats", to.size()),
                         .got = fmt::format("{} floats", from.size())});
    }
    stream.copy(to.data(), from.data(), from.size_bytes());
}

/// The saved values of `name`; empty when there are none.
std::span<const float> saved_slot(const TrainSnapshot& snapshot, const std::string& name) {
    for (const auto& [saved, values] : snapshot.optimizer_slots) {
        if (saved == name) {
            return values;
        }
    }
    return {};
}

}  // namespace

void Trainer::Run::restore(const TrainSnapshot& snapshot) {
    Stream& stream = parts_.replica.stream();
    restore_buffer(stream, "parameters", parts_.replica.parameters(), snapshot.parameters);
    restore_buffer(stream, "state", parts_.replica.state(), snapshot.state);
    for (const OptimizerSlot& slot : parts_.optimizer->slots()) {
        restore_buffer(stream, slot.name, slot.values, saved_slot(snapshot, slot.name));
    }
    stream.synchronize();
    for (const auto& [name, value] : snapshot.optimizer_scalars) {
        parts_.optimizer->set_scalar(name, value);
    }
    // State comes from the checkpoint, settings from the options.
    const OptimizerOptions choice = optimizer_options(options_);
    parts_.optimizer->set_momentum(choice.kind == OptimizerKind::kSgd ? choice.momentum
                                                                      : choice.beta1);
    progress_ = earlier_ = snapshot.progress;
    earlier_accounts_ = snapshot.accounts;
}

TrainSnapshot Trainer::Run::snapshot() {
    update_times();
    Stream& stream = parts_.replica.stream();
    TrainSnapshot snapshot;
    snapshot.identity = run_identity(options_, parts_.train_set->info());
    snapshot.progress = progress_;
    snapshot.parameters = host_copy(stream, parts_.replica.parameters());
    snapshot.state = host_copy(stream, parts_.replica.state());
    for (const OptimizerSlot& slot : parts_.optimizer->slots()) {
        snapshot.optimizer_slots.emplace_back(slot.name, host_copy(stream, slot.values));
    }
    for (const OptimizerScalar& scalar : parts_.optimizer->scalars()) {
        snapshot.optimizer_scalars.emplace_back(scalar.name, scalar.value);
    }
    stream.synchronize();
    snapshot.lease_state = encode_lease_state(book_->state());
    snapshot.accounts = accounts();
    snapshot.metrics_bytes = metrics_->position();
    return snapshot;
}

void Trainer::Run::save_model() {
    Stream& stream = parts_.replica.stream();
    const SampleSetInfo& info = parts_.train_set->info();
    ModelFile model{.model = options_.model,
                    .sample_shape = info.sample_shape,
                    .classes = info.classes,
                    .mean = info.mean,
                    .std = info.std,
                    .parameters = host_copy(stream, parts_.replica.parameters()),
                    .state = host_copy(stream, parts_.replica.state())};
    stream.synchronize();
    try {
        write_model(RunFolder(options_.out).model, parts_.replica.graph(), model, parts_.hdf5);
    } catch (const FileError& error) {
        outputs_saved_ = false;
        log_error("the model could not be saved: {}", error.what());
    }
}

}  // namespace cohort
