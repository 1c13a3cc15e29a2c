#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "train/checkpoint/snapshot.hpp"

namespace cohort {

/// Of a ShardSnapshot whose floats lie in one array: parameters, state, then each slot of the
/// optimizer.
struct MirrorHeader {
    std::string mirror;  ///< see is_mirror
    std::int32_t part = 0;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t version = 0;
    std::int64_t state = 0;          ///< floats of it
    std::vector<std::string> slots;  ///< names; [end - begin] floats each
    std::vector<std::pair<std::string, double>> scalars;
    auto fields() { return std::tie(mirror, part, begin, end, version, state, slots, scalars); }
};

/// One part of a mirror.
struct MirrorPart {
    MirrorHeader header;
    std::shared_ptr<const std::vector<float>> floats;
};
[[nodiscard]] MirrorPart pack(const std::string& mirror, const ShardSnapshot& snapshot);
/// The other way round. Errors: PeerError when the floats are too few or too many.
[[nodiscard]] ShardSnapshot unpack(const MirrorPart& part);

/// The path that an order for a checkpoint has when it is to stay in memory: "memory:1.17".
/// @param world  counts the Worlds of a run  @param number  counts the mirrors of a World
[[nodiscard]] std::string mirror_name(std::uint64_t world, std::uint64_t number);
[[nodiscard]] bool is_mirror(const std::string& checkpoint);

/// What the manifest of a checkpoint would say of a mirror whose parts are all held.
struct MirrorBooks {
    std::string mirror;
    std::int32_t parts = 0;
    RunSnapshot snapshot;  ///< without shards
    auto fields() { return std::tie(mirror, parts, snapshot); }
};

/// What this process holds of mirrors: checkpoints in the memory of the ranks, for when the World
/// is lost and those that are left go on in another one (World::survive). Outlives both. Thread
/// safe.
class MirrorStore {
public:
    void put(MirrorPart part);
    /// All parts of a mirror are where they are to be. Older mirrors are forgotten.
    void complete(MirrorBooks books);

    /// What there is of one mirror.
    struct Held {
        std::string mirror;
        std::int64_t samples = -1;  ///< applied; -1: the mirror is not known to be complete
        std::int32_t of = 0;        ///< parts of the whole mirror, when it is complete
        std::vector<std::int32_t> parts;
        auto fields() { return std::tie(mirror, samples, of, parts); }
    };
    [[nodiscard]] std::vector<Held> held() const;
    /// Nothing when this process does not hold it.
    [[nodiscard]] std::optional<MirrorPart> part(const std::string& mirror,
                                                 std::int32_t part) const;
    [[nodiscard]] std::optional<MirrorBooks> books(const std::string& mirror) const;
    /// Nothing is held any more: another World begins.
    void clear();
    /// How many have begun so.
    [[nodiscard]] std::uint64_t world() const;

private:
    struct Mirror {
        std::map<std::int32_t, MirrorPart> parts;
        std::optional<MirrorBooks> books;
    };
    mutable std::mutex mutex_;
    std::map<std::string, Mirror> mirrors_;
    std::uint64_t world_ = 0;
};

}  // namespace cohort
