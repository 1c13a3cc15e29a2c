#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "train/protocol/protocol_ring.hpp"

namespace cohort {

/// What the members left say after the loss of a member: who has completed which round, and who is
/// being brought up.
class RingRecovery {
public:
    /// @param known  report of the round that some have completed, from a recovery that this one
    ///               takes the place of
    RingRecovery(std::vector<int> members, std::optional<RoundReport> known)
        : members_(std::move(members)), report_(std::move(known)) {}

    void add(const Recovered& answer) { answers_.push_back(answer); }
    [[nodiscard]] bool all_answered() const noexcept { return answers_.size() == members_.size(); }
    [[nodiscard]] bool has_answered(int worker) const;
    /// The newest round that a member has completed; 0: none has answered.
    [[nodiscard]] std::uint64_t newest_round() const;
    /// A member that has completed it; takes its report.
    [[nodiscard]] int find_giver();
    /// Members that have not completed it.
    [[nodiscard]] std::vector<int> behind() const;
    /// Those whose report is of it: they took part in it.
    [[nodiscard]] std::vector<int> completed() const;
    /// A member is being brought up by this role order; it has carried it out.
    void bring(std::uint64_t order) { bringing_.push_back(order); }
    void brought(std::uint64_t order) { std::erase(bringing_, order); }
    [[nodiscard]] bool brings(std::uint64_t order) const;
    /// All have answered, and all hold the same.
    [[nodiscard]] bool over() const noexcept { return all_answered() && bringing_.empty(); }
    [[nodiscard]] const std::optional<RoundReport>& report() const noexcept { return report_; }

private:
    std::vector<int> members_;
    std::vector<Recovered> answers_;
    std::vector<std::uint64_t> bringing_;  ///< role orders that have not been carried out
    std::optional<RoundReport> report_;    ///< of the newest round
};

}  // namespace cohort
