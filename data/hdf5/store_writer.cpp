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

#include "data/hdf5/hdf5_attributes.hpp"
#include "data/hdf5/hdf5_handle.hpp"
#include "data/hdf5/hdf5_output.hpp"
#include "data/hdf5/store_block.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

void require_open(const Hdf5Output& output) {
    check_invariant(output.open(), "a committed store is not written to");
}

}  // namespace

StoreWriter::StoreWriter(OutputFile file, const StoreFormat& format, Hdf5Thread& thread)
    : output_(std::make_unique<Hdf5Output>(std::move(file), thread, Hdf5Priority::kBackground,
                                           kStoreStructureBytes, kStoreBlockBytes)) {
    output_->run([&] {
        hdf5_write(output_->id(), kStoreFormatAttribute, format.name, output_->path());
        hdf5_write(output_->id(), kStoreVersionAttribute, std::int64_t{format.version},
                   output_->path());
    });
}

StoreWriter::~StoreWriter() = default;

/// Creates the data set and returns where in the file its bytes belong. On the HDF5 thread.
std::uint64_t StoreWriter::allocate(const std::string& name, std::uint64_t bytes,
                                    std::size_t element, std::span<const std::int64_t> shape) {
    const std::string place = output_->where(name);
    output_->reserve(bytes);
    const std::vector<hsize_t> extents(shape.begin(), shape.end());
    const Hdf5Handle create = hdf5_own(H5Pcreate(H5P_DATASET_CREATE), place, "cannot prepare");
    hdf5_check(H5Pset_layout(create.id(), H5D_CONTIGUOUS), place, "cannot prepare");
    hdf5_check(H5Pset_alloc_time(create.id(), H5D_ALLOC_TIME_EARLY), place, "cannot prepare");
    hdf5_check(H5Pset_fill_time(create.id(), H5D_FILL_TIME_NEVER), place, "cannot prepare");
    Hdf5Handle array =
        hdf5_own(H5Dcreate2(output_->id(), name.c_str(), store_type(element),
                            hdf5_space(extents, place).id(), hdf5_making_groups(place).id(),
                            create.id(), H5P_DEFAULT),
                 place, "cannot create the array");
    const haddr_t offset = H5Dget_offset(array.id());
    if (bytes > 0 && offset == HADDR_UNDEF) {
        hdf5_fail(place, "cannot tell where the array is stored");
    }
    array.close(place);
    return offset;
}

/// Returns the CRC-32.
std::uint32_t StoreWriter::write(std::uint64_t offset, std::span<const std::byte> bytes) {
    std::uint32_t crc = 0;
    while (!bytes.empty()) {
        const auto slice = bytes.first(std::min(kSliceBytes, bytes.size()));
        crc = crc32_of(slice, crc);
        output_->target().write_at(offset, slice);
        offset += slice.size();
        bytes = bytes.subspan(slice.size());
    }
    return crc;
}

void StoreWriter::put_bytes(std::string_view name, std::span<const std::byte> bytes,
                            std::size_t element, std::size_t count,
                            std::span<const std::int64_t> shape) {
    require_open(*output_);
    check_name(name);
    const std::string array(name);
    const std::string place = output_->where(name);
    const std::array whole{static_cast<std::int64_t>(count)};
    const std::span<const std::int64_t> extents =
        shape.empty() ? std::span<const std::int64_t>(whole) : shape;
    if (elements_of(extents) != whole.front()) {
        fail<ShapeError>({.where = place,
                          .what = "the array does not fill its shape",
                          .expected = fmt::format("{} elements", elements_of(extents)),
                          .got = fmt::format("{}", count)});
    }
    if (!names_.insert(array).second) {
        fail<UsageError>({.where = place, .what = "the array is already written"});
    }
    const std::uint64_t offset =
        output_->run([&] { return allocate(array, bytes.size(), element, extents); });
    const std::uint64_t crc = write(offset, bytes);
    output_->run([&] {
        hdf5_write(hdf5_open_dataset(output_->id(), array, place).id(), kStoreCrcAttribute, crc,
                   place);
    });
}

void StoreWriter::set(std::string_view object, std::string_view name, const StoreValue& value) {
    require_open(*output_);
    const std::string path(object);
    if (path != "/") {
        check_name(path);
    }
    output_->run([&] {
        const std::string place = output_->where(path);
        const auto* text = std::get_if<std::string>(&value);
        output_->reserve(text == nullptr ? 0 : text->size());
        if (!hdf5_exists(output_->id(), path)) {
            hdf5_own(H5Gcreate2(output_->id(), path.c_str(), hdf5_making_groups(place).id(),
                                H5P_DEFAULT, H5P_DEFAULT),
                     place, "cannot create the group")
                .close(place);
        }
        const Hdf5Handle open =
            hdf5_own(H5Oopen(output_->id(), path.c_str(), H5P_DEFAULT), place, "cannot open");
        std::visit([&](const auto& each) { hdf5_write(open.id(), std::string(name), each, place); },
                   value);
    });
}

void StoreWriter::commit() {
    require_open(*output_);
    AtomicFile& target = output_->target();
    const std::string& path = output_->path();
    const std::uint64_t bytes = output_->run([&] {
        output_->reserve(0);
        hdf5_write(output_->id(), kStoreArraysAttribute, std::uint64_t{names_.size()}, path);
        return output_->close();
    });
    target.truncate(bytes);
    const std::uint32_t crc = file_crc32(target.descriptor(), path, kStoreBlockBytes, bytes);
    target.write_at(0, make_store_block(bytes, crc));
    target.commit();
}

}  // namespace cohort
