#pragma once

#include <cstdint>

#include "cohort/core/host_device.hpp"
#include "cohort/layers/window.hpp"
#include "cohort/tensor/element.hpp"

// Index arithmetic and numerics of kernels over [rows, channels] with channels fastest: batch norm,
// bias, pooling. No CUDA in it.
namespace cohort::cuda {

constexpr int kTileThreads = 256;

/// How [rows, channels] is cut among blocks of kTileThreads threads: `lanes` of them side by side,
/// each with `vector` channels, in as many rows as that leaves. Blocks stride on by the grid.
struct ChannelTiles {
    int vector = 1;           ///< 16 bytes of channels, or 1
    int lanes = 1;            ///< a power of two, <= 32
    std::int64_t groups = 1;  ///< of `vector` channels each
    unsigned blocks_x = 1;    ///< along the channels
    unsigned blocks_y = 1;    ///< along the rows

    [[nodiscard]] COHORT_HD constexpr int rows() const { return kTileThreads / lanes; }
};

/// @param channels  stored in a row
/// @param vectors  false: one channel per thread whatever divides
/// @param most_lanes  a power of two
[[nodiscard]] constexpr ChannelTiles channel_tiles(std::int64_t rows, std::int64_t channels,
                                                   ElementType type, int multiprocessors,
                                                   bool vectors = true,
                                                   int most_lanes = 32) noexcept {
    constexpr std::int64_t kRowsPerThread = 4;  // at least, so that sums are worth their folding
    constexpr std::int64_t kBlocksPerMultiprocessor = 8;  // no GPU has room for more
    ChannelTiles tiles;
    const auto most = static_cast<int>(16 / element_bytes(type));
    tiles.vector = vectors && channels % most == 0 ? most : 1;
    tiles.groups = channels / tiles.vector;
    while (tiles.lanes < most_lanes && tiles.lanes < tiles.groups) {
        tiles.lanes *= 2;
    }
    const std::int64_t across = (tiles.groups + tiles.lanes - 1) / tiles.lanes;
    const std::int64_t rows_of_block = tiles.rows() * kRowsPerThread;
    const std::int64_t wanted = (rows + rows_of_block - 1) / rows_of_block;
    const std::int64_t most_blocks =
        (kBlocksPerMultiprocessor * multiprocessors + across - 1) / across;
    tiles.blocks_x = static_cast<unsigned>(across);
    tiles.blocks_y = static_cast<unsigned>(
        wanted < 1 ? 1 : (wanted < most_blocks ? wanted : (most_blocks < 1 ? 1 : most_blocks)));
    return tiles;
}

/// Rows that each of `blocks` blocks sees when tiles of `tile` rows are dealt out in turn; divides
/// once for all of them.
class RowShares {
public:
    COHORT_HD constexpr RowShares(std::int64_t rows, std::int64_t tile, std::int64_t blocks)
        : tile_(tile) {
        const std::int64_t tiles = (rows + tile - 1) / tile;
        each_ = tiles / blocks;
        with_one_more_ = tiles - each_ * blocks;
        last_ = with_one_more_ > 0 ? with_one_more_ - 1 : blocks - 1;
        missing_ = tiles * tile - rows;
    }
    [[nodiscard]] COHORT_HD constexpr std::int64_t operator[](std::int64_t block) const {
        const std::int64_t own = each_ + (block < with_one_more_ ? 1 : 0);
        return own * tile_ - (block == last_ ? missing_ : 0);
    }

private:
    std::int64_t tile_;
    std::int64_t each_ = 0;           ///< tiles of a block
    std::int64_t with_one_more_ = 0;  ///< blocks; the first ones
    std::int64_t last_ = 0;           ///< the block that has the last tile
    std::int64_t missing_ = 0;        ///< rows of the last tile
};

/// Count, mean and sum of squared distances from it, of some numbers; sets are merged without
/// cancelling (Chan et al. 1979).
template <class Real>
struct Moments {
    Real count = 0;
    Real mean = 0;
    Real squares = 0;
};

template <class Real>
COHORT_HD constexpr Moments<Real> merge(const Moments<Real>& a, const Moments<Real>& b) {
    const Real count = a.count + b.count;
    if (count == Real{0}) {
        return a;
    }
    const Real delta = b.mean - a.mean;
    const Real share = b.count / count;
    return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

/// Moments from sums of (x - shift) and (x - shift)^2. With one of the numbers as the shift nothing
/// cancels that matters.
template <class Real>
COHORT_HD constexpr Moments<Real> moments_of_sums(Real count, Real shift, Real sum, Real squares) {
    if (count == Real{0}) {
        return {};
    }
    const Real mean = sum / count;
    const Real rest = squares - sum * mean;
    return {count, shift + mean, rest < Real{0} ? Real{0} : rest};
}

/// Half-open range of cells or windows along one axis.
struct PoolRange {
    std::int64_t first = 0;
    std::int64_t last = 0;
};
/// Cells that window `index`, which has no gaps, covers, those outside [0, extent) left out.
COHORT_HD constexpr PoolRange window_cells(std::int64_t index, const WindowAxis& axis,
                                           std::int64_t extent) {
    const std::int64_t first = index * axis.stride - axis.before;
    const std::int64_t last = first + axis.kernel;
    return {first < 0 ? 0 : first, last < extent ? last : extent};
}
/// Windows, of `windows`, that cover `cell`.
COHORT_HD constexpr PoolRange cell_windows(std::int64_t cell, const WindowAxis& axis,
                                           std::int64_t windows) {
    const std::int64_t reach = cell + axis.before;
    const std::int64_t first = reach < axis.kernel ? 0 : (reach - axis.kernel) / axis.stride + 1;
    const std::int64_t last = reach / axis.stride + 1;
    return {first, last < windows ? last : windows};
}

/// Bytes of a place within a window of that many cells; 0: the window is too large for any.
[[nodiscard]] constexpr std::size_t place_bytes(std::int64_t cells) noexcept {
    return cells <= 256 ? 1 : (cells <= 65536 ? 2 : 0);
}

}  // namespace cohort::cuda
