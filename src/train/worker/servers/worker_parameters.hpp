#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "cohort/core/clock.hpp"
#include "cohort/tensor/device.hpp"
#include "train/protocol/protocol.hpp"
#include "train/protocol/shards.hpp"

namespace cohort {

/// A host buffer with all parameters, then the state, and how it is cut into shards: those of the
/// servers lie one behind the other. One thread changes and reads the cut; sizes do not change.
class ShardedLayout {
public:
    explicit ShardedLayout(std::vector<ShardRange> shards);

    /// The parameters are cut in another way from now on.
    void adopt(const ShardLayout& layout);
    /// Of the cut, see ShardLayout.
    [[nodiscard]] std::uint32_t number() const noexcept { return number_; }

    [[nodiscard]] const std::vector<ShardRange>& shards() const noexcept { return shards_; }
    [[nodiscard]] std::int64_t floats() const noexcept { return parameters_ + state_; }
    [[nodiscard]] std::int64_t parameters() const noexcept { return parameters_; }
    [[nodiscard]] std::int64_t state() const noexcept { return state_; }
    /// All floats of a buffer that has this layout.
    [[nodiscard]] std::span<float> all(const Buffer& buffer) const noexcept {
        return {buffer.floats(), static_cast<std::size_t>(floats())};
    }
    /// All floats of a shard in `buffer`.
    [[nodiscard]] static std::span<float> part(float* buffer, const ShardRange& shard) noexcept {
        return {buffer + shard.begin, static_cast<std::size_t>(shard.floats())};
    }

private:
    std::vector<ShardRange> shards_;
    std::uint32_t number_ = 0;
    std::int64_t parameters_ = 0;
    std::int64_t state_ = 0;
};

/// Parameters of one version, complete.
struct ReceivedParameters {
    std::int64_t version = 0;
    EvaluationOrder evaluation;
    PushOutcomes outcomes;        ///< of this worker's pushes
    Buffer values;                ///< in ShardedLayout
    Clock::Seconds announced{0};  ///< SteadyClock: its first part was
};

/// Receives parameters part by part, whatever their cut. Parts may be of different versions for a
/// moment: a set is handed out when every server's part of it is received, in the order in which
/// sets are complete. Servers send releases in one order, so a set that a newer one has overtaken
/// never completes. Parameters that other workers pass on, and those sent in place of them (see
/// ParametersWay), may come late or twice: a set of them is dropped when the worker has taken
/// parameters of their version or newer ones. Sets are for an incarnation of the worker: those of
/// an older one are not handed out, those of a newer one not before begin_incarnation(). The sink's
/// side is called by the communication thread, missing() by any.
class ParameterInbox final : public TransferSink {
public:
    ParameterInbox(const ShardedLayout& layout, Device& device, Wire wire = Wire::kF32);
    ParameterInbox(const ParameterInbox&) = delete;
    ParameterInbox& operator=(const ParameterInbox&) = delete;
    ~ParameterInbox() override;

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    /// The announcement has come out of the mailbox. Errors: PeerError when it fits nothing that
    /// was accepted.
    void arrived(const ParametersHeader& header);

    [[nodiscard]] bool has_complete() const;
    /// The oldest complete set. Errors: PeerError when it overtakes one with an evaluation order,
    /// which then could never be carried out.
    [[nodiscard]] std::optional<ReceivedParameters> take();
    /// The worker was lost and restarts. Sets of older incarnations are abandoned: their parts are
    /// not waited for any more, memory that is still written to stays until the process ends.
    void begin_incarnation(std::uint32_t incarnation);
    /// Its memory may be used for the next set.
    void give_back(ReceivedParameters used);
    /// The announcement of a part that is not needed any more, accepted or not.
    void forget(const ParametersHeader& header);
    /// World ranks that are writing into this inbox.
    [[nodiscard]] std::vector<int> coming() const;
    /// Servers whose part of the oldest set (or of any, when there is none) is not there.
    [[nodiscard]] std::vector<int> missing() const;

private:
    enum class Part : std::uint8_t { kNone, kComing, kHere };
    struct Set {
        ReceivedParameters parameters;
        std::vector<Part> parts;  ///< by server and piece
        std::vector<int> from;    ///< [parts] world ranks
        bool overtaken = false;   ///< only waits for bytes in flight
        std::uint32_t incarnation = 0;
        ParametersWay way = ParametersWay::kStraight;
        [[nodiscard]] bool coming() const;  ///< it is being written to
    };
    [[nodiscard]] bool complete(const Set& set) const;
    [[nodiscard]] bool fits(const ParametersHeader& header) const;
    [[nodiscard]] bool late(const ParametersHeader& header) const;
    [[nodiscard]] Set* find(const ParametersHeader& header, Part part);
    [[nodiscard]] Buffer memory();
    void overtake(std::int64_t version, ParametersWay way);
    void drop_overtaken();

    const std::int64_t parameters_;
    const std::int64_t state_;
    const std::size_t servers_;
    const Wire wire_;
    Device& device_;
    mutable std::mutex mutex_;
    std::deque<Set> sets_;      ///< in the order in which they began
    std::vector<Buffer> free_;  ///< memory of sets that are done with
    std::uint32_t incarnation_ = 0;
    std::int64_t taken_ = -1;  ///< newest version that was taken in this incarnation
};

}  // namespace cohort
