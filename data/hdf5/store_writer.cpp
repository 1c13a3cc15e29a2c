// Writing a store: HDF5 lays the file out, we write the bytes, the first block is last.
//
// 1. AtomicFile makes a temporary file in the same folder; HDF5 creates its structures in it
//    behind a user block of 512 zero bytes.
// 2. put(): room for the array is reserved on the disk, HDF5 allocates it as one contiguous block
//    and tells where (H5Dget_offset). The caller's thread writes the bytes there in slices.
// 3. commit(): the number of arrays is written, HDF5 flushes and closes, the CRC-32 of all that
//    goes into the user block, then fsync, rename, fsync of the folder.
// Until step 3 has written the block the file is no store, whatever else is in it.
#include "cohort/core/error.hpp"
#include "data/hdf5/store.hpp"

#include "data/hdf5/file_io.hpp"
#include "data/hdf5/hdf5_attributes.hpp"
#include "data/hdf5/hdf5_handle.hpp"
#include "data/hdf5/store_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

namespace cohort {

namespace {

/// Room kept free on the disk for what HDF5 writes about the data.
constexpr std::uint64_t kStoreStructureBytes = std::uint64_t{512} << 10U;
constexpr std::size_t kSliceBytes = std::size_t{4} << 20U;

void check_name(std::string_view name) {
    const bool usable = name.size() > 1 && name.front() == '/' && name.back() != '/' &&
                        name.find("//") == std::string_view::npos;
    if (!usable) {
        fail<UsageError>({.where = "store",
                          .what = "unusable array name",
                          .expected = "an absolute path like /parameters/conv1.weight",
                          .got = fmt::format("'{}'", name)});
    }
}

/// Properties that make groups on the way to a new object.
Hdf5Handle making_groups(std::string_view where) {
    Hdf5Handle list = hdf5_own(H5Pcreate(H5P_LINK_CREATE), H5Pclose, where, "cannot prepare");
    hdf5_check(H5Pset_create_intermediate_group(list.id(), 1), where, "cannot prepare");
    return list;
}

}  // namespace

struct StoreWriter::State {
    State(OutputFile target, StoreFormat store_format, Hdf5Thread& hdf5)
        : output(std::move(target)), format(std::move(store_format)), thread(hdf5) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        try {
            thread.run([&] { file.reset(); }, Hdf5Priority::kBackground);
        } catch (const std::exception&) {
            // Queueing failed for lack of memory: the temporary file is removed all the same.
            return;
        }
    }

    AtomicFile output;
    StoreFormat format;
    Hdf5Thread& thread;
    Hdf5Handle file;  ///< used and closed on the HDF5 thread
    std::set<std::string, std::less<>> names;

    template <class F>
    auto job(F&& work) {
        return thread.run(std::forward<F>(work), Hdf5Priority::kBackground);
    }
    [[nodiscard]] std::string where(std::string_view object) const {
        return fmt::format("{}:{}", output.path(), object);
    }
    void require_open() const {
        check_invariant(file.valid(), "a committed store is not written to");
    }
    /// Makes room for `bytes` more before HDF5 does anything. On the HDF5 thread.
    void reserve(std::uint64_t bytes) {
        output.reserve(hdf5_file_bytes(file, output.path()) + bytes + kStoreStructureBytes);
    }
    std::uint64_t allocate(const std::string& name, std::uint64_t bytes, hid_t type,
                           const std::vector<hsize_t>& extents);
    void write(std::uint64_t offset, std::span<const std::byte> bytes, std::uint32_t& crc);
    void put(std::string_view name, std::span<const std::byte> bytes,
             const std::function<hid_t()>& type, std::size_t elements,
             std::span<const std::int64_t> shape);
};

/// Creates the data set and returns where in the file its bytes belong. On the HDF5 thread.
std::uint64_t StoreWriter::State::allocate(const std::string& name, std::uint64_t bytes, hid_t type,
                                           const std::vector<hsize_t>& extents) {
    const std::string place = where(name);
    reserve(bytes);
    const Hdf5Handle space =
        hdf5_own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                 H5Sclose, place, "cannot make the shape");
    const Hdf5Handle create =
        hdf5_own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, place, "cannot prepare");
    hdf5_check(H5Pset_layout(create.id(), H5D_CONTIGUOUS), place, "cannot prepare");
    hdf5_check(H5Pset_alloc_time(create.id(), H5D_ALLOC_TIME_EARLY), place, "cannot prepare");
    hdf5_check(H5Pset_fill_time(create.id(), H5D_FILL_TIME_NEVER), place, "cannot prepare");
    Hdf5Handle array = hdf5_own(H5Dcreate2(file.id(), name.c_str(), type, space.id(),
                                           making_groups(place).id(), create.id(), H5P_DEFAULT),
                                H5Dclose, place, "cannot create the array");
    const haddr_t offset = H5Dget_offset(array.id());
    if (bytes > 0 && offset == HADDR_UNDEF) {
        hdf5_fail(place, "cannot tell where the array is stored");
    }
    array.close(place);
    return offset;
}

void StoreWriter::State::write(std::uint64_t offset, std::span<const std::byte> bytes,
                               std::uint32_t& crc) {
    while (!bytes.empty()) {
        const auto slice = bytes.first(std::min(kSliceBytes, bytes.size()));
        crc = crc32_of(slice, crc);
        output.write_at(offset, slice);
        offset += slice.size();
        bytes = bytes.subspan(slice.size());
    }
}

void StoreWriter::State::put(std::string_view name, std::span<const std::byte> bytes,
                             const std::function<hid_t()>& type, std::size_t elements,
                             std::span<const std::int64_t> shape) {
    require_open();
    check_name(name);
    std::vector<hsize_t> extents(shape.begin(), shape.end());
    if (shape.empty()) {
        extents.push_back(elements);
    }
    const hsize_t product =
        std::accumulate(extents.begin(), extents.end(), hsize_t{1}, std::multiplies<>());
    if (product != elements) {
        fail<ShapeError>({.where = where(name),
                          .what = "the array does not fill its shape",
                          .expected = fmt::format("{} elements", product),
                          .got = fmt::format("{}", elements)});
    }
    const auto [entry, added] = names.emplace(name);
    if (!added) {
        fail<UsageError>({.where = where(name), .what = "the array is already written"});
    }
    const std::string& array = *entry;
    const std::uint64_t offset =
        job([&] { return allocate(array, bytes.size(), type(), extents); });
    std::uint32_t crc = 0;
    write(offset, bytes, crc);
    job([&] {
        const Hdf5Handle open = hdf5_open_dataset(file.id(), array, where(array));
        hdf5_write_unsigned(open.id(), kStoreCrcAttribute, crc, where(array));
    });
}

StoreWriter::StoreWriter(OutputFile file, StoreFormat format, Hdf5Thread& thread)
    : state_(std::make_unique<State>(std::move(file), std::move(format), thread)) {
    State& state = *state_;
    state.output.reserve(kStoreStructureBytes);  // no room, no HDF5 file; creating cuts it again
    state.job([&] {
        state.file = hdf5_create_file(state.output.temporary(), kStoreBlockBytes);
        state.reserve(0);
        hdf5_write_text(state.file.id(), kStoreFormatAttribute, state.format.name,
                        state.output.path());
        hdf5_write_integer(state.file.id(), kStoreVersionAttribute, state.format.version,
                           state.output.path());
    });
}

StoreWriter::~StoreWriter() = default;

template <StoreElement T>
void StoreWriter::put(std::string_view name, std::span<const T> values,
                      std::span<const std::int64_t> shape) {
    state_->put(name, std::as_bytes(values), &store_type<T>, values.size(), shape);
}

template void StoreWriter::put(std::string_view, std::span<const float>,
                               std::span<const std::int64_t>);
template void StoreWriter::put(std::string_view, std::span<const double>,
                               std::span<const std::int64_t>);
template void StoreWriter::put(std::string_view, std::span<const std::int64_t>,
                               std::span<const std::int64_t>);
template void StoreWriter::put(std::string_view, std::span<const std::uint64_t>,
                               std::span<const std::int64_t>);
template void StoreWriter::put(std::string_view, std::span<const std::byte>,
                               std::span<const std::int64_t>);

void StoreWriter::set(std::string_view object, std::string_view name, const StoreValue& value) {
    State& state = *state_;
    state.require_open();
    const std::string path(object);
    if (path != "/") {
        check_name(path);
    }
    state.job([&] {
        const std::string place = state.where(path);
        const auto* text = std::get_if<std::string>(&value);
        state.reserve(text == nullptr ? 0 : text->size());
        if (!hdf5_exists(state.file.id(), path)) {
            hdf5_own(H5Gcreate2(state.file.id(), path.c_str(), making_groups(place).id(),
                                H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose, place, "cannot create the group")
                .close(place);
        }
        const Hdf5Handle open = hdf5_own(H5Oopen(state.file.id(), path.c_str(), H5P_DEFAULT),
                                         H5Oclose, place, "cannot open");
        const std::string key(name);
        if (text != nullptr) {
            hdf5_write_text(open.id(), key, *text, place);
        } else if (const auto* number = std::get_if<double>(&value)) {
            hdf5_write_number(open.id(), key, *number, place);
        } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
            hdf5_write_integer(open.id(), key, *integer, place);
        } else {
            hdf5_write_unsigned(open.id(), key, std::get<std::uint64_t>(value), place);
        }
    });
}

void StoreWriter::commit() {
    State& state = *state_;
    state.require_open();
    const std::string& path = state.output.path();
    const std::uint64_t bytes = state.job([&] {
        state.reserve(0);
        hdf5_write_unsigned(state.file.id(), kStoreArraysAttribute, state.names.size(), path);
        hdf5_check(H5Fflush(state.file.id(), H5F_SCOPE_GLOBAL), path, "cannot write the file");
        const std::uint64_t length = hdf5_file_bytes(state.file, path);
        state.file.close(path);
        return length;
    });
    state.output.truncate(bytes);
    const std::uint32_t crc = file_crc32(state.output.descriptor(), path, kStoreBlockBytes, bytes);
    state.output.write_at(0, make_store_block(bytes, crc));
    state.output.commit();
}

}  // namespace cohort
