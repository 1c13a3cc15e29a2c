#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/base/dead_tcp_mask.hpp"

namespace cohort {

/// Which hosts have closed all connections that this process had with them. Those of before do not
/// count. To be used on the communication thread.
class HostConnections {
public:
    /// @param addresses  by node, numeric, that no other node has; none of the own node
    explicit HostConnections(std::vector<std::vector<std::string>> addresses)
        : addresses_(std::move(addresses)), connected_(addresses_.size()) {}

    /// To be called often: a connection that was never seen to be there cannot be seen to end.
    void look() {
        for (std::size_t node = 0; node < addresses_.size(); ++node) {
            connected_[node] = connected_[node] || tcp_connections().some_live(addresses_[node]);
        }
    }
    [[nodiscard]] bool closed(int node) const {
        const auto index = static_cast<std::size_t>(node);
        return connected_[index] && !tcp_connections().some_live(addresses_[index]);
    }

private:
    std::vector<std::vector<std::string>> addresses_;
    std::vector<bool> connected_;
};

}  // namespace cohort
