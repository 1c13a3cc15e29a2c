#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "train/coordinator/ring/ring_context.hpp"

namespace cohort {

/// Evaluations, checkpoints and snapshots that members are asked for, with a round or apart from
/// any.
class RingRequests {
public:
    explicit RingRequests(RingContext& context) : context_(context) {}

    /// Asks apart from any round. @param now  false: resume() asks, since the parameters of some
    /// members may be old @return parts of the evaluation
    int request(const UpdateExtras& extras, bool now);
    void resume();
    /// What a round is to leave behind.
    void attach(RoundOrder& order, const UpdateExtras& extras);
    /// The round is over. @param counts  false: what was to follow it has been given up
    void round_over(std::uint64_t round, bool counts);
    /// The round does not come about.
    void forget(std::uint64_t round) { by_round_.erase(round); }
    /// No round that is granted leaves anything behind.
    [[nodiscard]] bool empty() const;
    /// What a lost worker was to leave behind.
    void lost(int worker);
    void saved(const SavedPart& part) { writers_.erase(part.checkpoint); }
    void gathered(const GatheredHeader& snapshot);
    /// World ranks that do the evaluation ordered last.
    [[nodiscard]] const std::vector<int>& evaluators() const noexcept { return evaluators_; }

private:
    struct Asked {
        UpdateExtras extras;
        int reporter = 0;
        int parts = 1;  ///< of the evaluation
    };
    int ask(const UpdateExtras& extras);
    [[nodiscard]] Asked describe(RoundOrder& order, const UpdateExtras& extras);
    void note_evaluators();
    void note(const Asked& asked);

    RingContext& context_;
    std::map<std::uint64_t, Asked> by_round_;
    /// Workers that write checkpoints that were ordered and not answered, by path.
    std::map<std::string, int> writers_;
    UpdateExtras snapshot_;  ///< that was ordered and is not received; gather 0: none
    int sender_ = 0;         ///< worker that sends it
    std::optional<UpdateExtras> later_;
    std::vector<int> evaluators_;
};

}  // namespace cohort
