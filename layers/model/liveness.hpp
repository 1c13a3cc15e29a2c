#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "core/tensor/arena.hpp"
#include "layers/model/execution_plan.hpp"

namespace cohort {

/// First and last step that uses some memory.
struct Life {
    int first = std::numeric_limits<int>::max();
    int last = -1;
    std::size_t sample_bytes = 0;

    void touch(int step) {
        first = std::min(first, step);
        last = std::max(last, step);
    }
    [[nodiscard]] bool used() const { return last >= 0; }
};

/// First and last use of all tensors that need memory.
class Liveness {
public:
    Liveness(const CompiledGraph& compiled, const ExecutionOrder& order);

    std::vector<Life> activations;  ///< per value that owns memory
    std::vector<Life> gradients;    ///< likewise
    std::vector<Life> saved;        ///< per node
    std::vector<Life> forward;      ///< per node: from its first to its last forward pass
    std::vector<Life> backward;
    std::vector<int> segment_of;  ///< per step

private:
    [[nodiscard]] Life& activation(int value);
    [[nodiscard]] Life& gradient(int value);
    void touch(const PlannedStep& planned, int at);
    void touch_gradients(const PlannedStep& planned, int output, int at);

    const CompiledGraph& compiled_;
    const ExecutionOrder& order_;
};

/// Requests memory for a life; its place is written to `place`.
using RequestPlace = std::function<void(const Life& life, Place& place)>;

/// Requests memory for every value that owns memory, and for data saved between the passes of a
/// node.
void request_tensors(const Liveness& liveness, const ExecutionOrder& order, TensorPlaces& places,
                     const RequestPlace& request);

/// Requests memory for gradient contributions that are added later. @param first  number of the
/// first step
void request_additions(const CompiledGraph& compiled, std::vector<PlannedStep>& steps, int first,
                       const RequestPlace& request);

/// A request for memory, and the place of its result.
struct Request {
    ArenaRequest arena;
    std::size_t* offset;
};

/// Places the requests in one arena. @return size of the arena, bytes
std::size_t place_requests(const std::vector<Request>& requests, std::size_t alignment = 64);

/// Gives values that share memory the place of the owner.
void share_places(const std::vector<int>& storage, std::vector<Place>& places);

}  // namespace cohort
