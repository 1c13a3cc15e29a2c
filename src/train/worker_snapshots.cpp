#include "worker_snapshots.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

std::vector<float> host_copy(Stream& stream, std::span<const float> from) {
    std::vector<float> to(from.size());
    stream.copy(to.data(), from.data(), from.size_bytes());
    return to;
}

void restore_buffer(Stream& stream, const std::string& where, std::string_view name,
                    std::span<float> to, std::span<const float> from) {
    if (to.size() != from.size()) {
        fail<FileError>({.where = where,
                         .what = fmt::format("{} in it does not fit this run", name),
                         .expected = fmt::format("{} floats", to.size()),
                         .got = fmt::format("{} floats", from.size())});
    }
    stream.copy(to.data(), from.data(), from.size_bytes());
}

/// The saved values of `name`; empty when there are none.
std::span<const float> saved_slot(const ShardSnapshot& snapshot, const std::string& name) {
    for (const auto& [saved, values] : snapshot.optimizer_slots) {
        if (saved == name) {
            return values;
        }
    }
    return {};
}

}  // namespace

ShardSnapshot copy_replica(Replica& replica, Optimizer& optimizer, std::int64_t version) {
    Stream& stream = replica.stream();
    ShardSnapshot snapshot;
    snapshot.end = replica.graph().parameters().total();
    snapshot.version = version;
    snapshot.parameters = host_copy(stream, replica.parameters());
    snapshot.state = host_copy(stream, replica.state());
    for (const OptimizerSlot& slot : optimizer.slots()) {
        snapshot.optimizer_slots.emplace_back(slot.name, host_copy(stream, slot.values));
    }
    for (const OptimizerScalar& scalar : optimizer.scalars()) {
        snapshot.optimizer_scalars.emplace_back(scalar.name, scalar.value);
    }
    stream.synchronize();
    return snapshot;
}

void restore_replica(Replica& replica, Optimizer& optimizer, const ShardSnapshot& snapshot,
                     const std::string& where) {
    Stream& stream = replica.stream();
    restore_buffer(stream, where, "parameters", replica.parameters(), snapshot.parameters);
    restore_buffer(stream, where, "state", replica.state(), snapshot.state);
    for (const OptimizerSlot& slot : optimizer.slots()) {
        restore_buffer(stream, where, slot.name, slot.values, saved_slot(snapshot, slot.name));
    }
    stream.synchronize();
    optimizer.restore_scalars(snapshot.optimizer_scalars);
}

}  // namespace cohort
