#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "cohort/comm/messenger.hpp"
#include "core/tensor/buffer_pool.hpp"
#include "train/protocol/comm_context.hpp"
#include "train/protocol/protocol_node.hpp"

namespace cohort {

/// Passes on parameters that come down a push tree: to heads of other nodes and to workers of this
/// one, as each piece says (PassOnHeader). A piece leaves when all of it has come, so that none
/// ever stays half sent. The sink's side is called by the communication thread, the rest by any.
class ParameterRelay final : public TransferSink {
public:
    /// Both outlive it.
    ParameterRelay(const CommContext& comm, Device& device) : comm_(comm), device_(device) {}
    ParameterRelay(const ParameterRelay&) = delete;
    ParameterRelay& operator=(const ParameterRelay&) = delete;
    ~ParameterRelay() override;  ///< keeps the memory of pieces that never came to their end

    std::span<std::byte> accept(const Message& announcement, std::uint64_t bytes) override;
    /// All bytes of a piece have been received: they leave again.
    void arrived(const PassOnHeader& header);
    /// All bytes of a piece have been received, and no worker needs the piece any more.
    void forget(const PassOnHeader& header) { (void)take(header); }
    /// World ranks that are sending.
    [[nodiscard]] std::vector<int> coming() const;

private:
    /// Version, server, piece, look-ahead.
    using Key = std::tuple<std::int64_t, std::int32_t, std::int32_t, double>;
    struct Piece {
        std::shared_ptr<float> values;
        std::size_t bytes = 0;
        int from = -1;  ///< world rank
    };
    [[nodiscard]] static Key key_of(const PassOnHeader& header);
    [[nodiscard]] Piece take(const PassOnHeader& header);

    const CommContext& comm_;
    Device& device_;
    mutable std::mutex mutex_;
    std::map<std::int64_t, BufferPool> pools_;  ///< by floats
    std::map<Key, Piece> pieces_;               ///< that are coming
};

}  // namespace cohort
