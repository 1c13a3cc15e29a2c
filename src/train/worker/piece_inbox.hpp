#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "train/protocol/protocol_node.hpp"
#include "train/server/server_staging.hpp"

namespace cohort {

/// Receives sums of other nodes in pieces, see NodePieceHeader. Incarnations of a sum differ: after
/// a loss a sum may have other parts. The sink's side is called by the
/// communication thread, the rest by any.
class PieceInbox final : public TransferSink {
public:
    /// @param floats of a sum  @param pieces >= 1
    PieceInbox(Device& device, std::int64_t floats, int pieces, Wire wire);

    [[nodiscard]] int pieces() const noexcept { return static_cast<int>(parts_.size()); }
    /// First float of a piece; of pieces(): all floats.
    [[nodiscard]] std::int64_t begin_of(int piece) const noexcept {
        return floats_ * piece / pieces();
    }

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    /// All bytes of a piece have been received. Errors: PeerError.
    void arrived(const NodePieceHeader& header);
    [[nodiscard]] bool is_here(const PushId& sum, int piece) const {
        return part(piece).is_here(sum);
    }
    /// Hands out a piece and forgets it. Errors: PeerError when it has not been received.
    [[nodiscard]] std::shared_ptr<const float> take(const PushId& sum, int piece) {
        return part(piece).take(sum);
    }
    /// Forgets what is there, or comes, of a sum.
    void discard(const PushId& sum);
    /// The same of all sums for updates up to this version.
    void discard_sums(std::int64_t version);
    /// A piece that is not needed has been received.
    void forget(const NodePieceHeader& header) { part(header.piece).forget(header.sum); }
    /// World ranks that are sending.
    [[nodiscard]] std::vector<int> coming() const;

private:
    [[nodiscard]] PushStaging& part(int piece) const {
        return *parts_.at(static_cast<std::size_t>(piece));
    }

    std::int64_t floats_;
    std::vector<std::unique_ptr<PushStaging>> parts_;  ///< by piece
};

}  // namespace cohort
