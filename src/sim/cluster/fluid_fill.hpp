#pragma once

#include <vector>

#include "sim/cluster/fluid_state.hpp"

namespace cohort::fluid {

/// A part of the network whose paths are connected by full resources: a group that has some
/// connects all its activities, even those that use none of these.
class ConnectedPart {
public:
    explicit ConnectedPart(State& state) : state_(state) {}

    /// Paths can be found once more.
    void begin_search() { ++search_; }
    /// @return false: the path was found with another one in this search
    [[nodiscard]] bool find(Index path);

    [[nodiscard]] const std::vector<Index>& paths() const noexcept { return paths_; }
    /// Full resources, and groups that have some.
    [[nodiscard]] const std::vector<Index>& resources() const noexcept { return resources_; }
    [[nodiscard]] const std::vector<Index>& groups() const noexcept { return groups_; }

private:
    void connect_paths(const Used& used);
    void connect_resource(Index resource);
    void connect_group(Index group);

    State& state_;
    std::uint64_t search_ = 0;
    std::vector<Index> paths_;
    std::vector<Index> resources_;
    std::vector<Index> groups_;
};

/// Progressive filling of a connected part, over tiers: all rise together; at each step those at
/// their limits, or else those of the resources that are full first, rise no more.
/// Cost: O((paths * uses + rounds * resources) of the part), rounds <= tiers + resources.
class Filling {
public:
    explicit Filling(State& state) : state_(state), part_(state) {}

    /// Rates of all that is connected with the changed paths.
    void fill_changed();

private:
    void fill();
    void weigh(const Path& path, std::int64_t rising, double held);
    [[nodiscard]] double level_of(const Resource& resource);
    [[nodiscard]] double lowest_level();
    bool hold_limited(double level);
    void hold_full(double level);
    void find_filled(double level);
    void hold_all(const Used& used, ResourceId id, double level);
    [[nodiscard]] bool uses_filled(const Path& path, ResourceId id);
    void hold(Path& path, std::size_t tiers_held, double level);
    void set_rate(Index tier, double rate);

    State& state_;
    ConnectedPart part_;
    std::uint64_t step_ = 0;
    std::vector<Index> filled_;  ///< resources that are full at this step
};

}  // namespace cohort::fluid
