#pragma once

#include "sim/cluster/fluid_completions.hpp"
#include "sim/cluster/fluid_routes.hpp"

namespace cohort::fluid {

/// Keeps every kind in the tier where its members and limit belong.
class Tiers {
public:
    Tiers(State& state, Changes& changes, RouteTable& routes, PathTable& paths,
          Completions& completions)
        : state_(state),
          changes_(changes),
          routes_(routes),
          paths_(paths),
          completions_(completions) {}

    /// The kind of a route's activities with this limit, made if there is none.
    [[nodiscard]] Index kind_of(Index route, double limit);
    /// A kind whose members or limit changed goes into the tier where it belongs now; one without
    /// activities is forgotten.
    void place(Index kind);
    /// @return was the tier without activities?
    [[nodiscard]] bool drop_if_empty(Index tier);

private:
    void forget(Index kind);
    void leave(Kind& kind);
    [[nodiscard]] Index tier_of(Index path, double limit);
    void count_members(Index tier, std::int64_t change);

    State& state_;
    Changes& changes_;
    RouteTable& routes_;
    PathTable& paths_;
    Completions& completions_;
};

/// Knows which resources are full: more is wanted of them than they have. Only they hold
/// activities back.
class Bottlenecks {
public:
    Bottlenecks(State& state, Changes& changes) : state_(state), changes_(changes) {}

    /// Tells what the path uses how much it wants now.
    void count_wanted(Path& path);
    /// Judges all that changed; paths that are or were held back there change too.
    void judge_all();

private:
    void judge_group(Group& group);
    [[nodiscard]] double wanted(const Resource& resource);
    void judge(Resource& resource);
    void change_paths(const Used& used);

    State& state_;
    Changes& changes_;
    std::uint64_t settlings_ = 0;
};

}  // namespace cohort::fluid
