#include "causeway/communicator/control_link.h"

#include <istream>
#include <utility>

#include "causeway/base/error.h"

namespace causeway::communicator {
namespace {

// A character of a cause (kLongestCause) takes six in a line at most.
constexpr size_t kLongestLine = 32768;

}  // namespace

ControlLink::ControlLink(boost::asio::ip::tcp::socket socket) : socket_(std::move(socket)), incoming_(kLongestLine) {
  boost::system::error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
}

void ControlLink::send(const ControlMessage& message) {
  const std::string line = print_control_message(message) + "\n";
  boost::system::error_code ignored;
  boost::asio::write(socket_, boost::asio::buffer(line), ignored);
}

void ControlLink::read(std::function<void(const ControlMessage&)> on_message,
                       std::function<void(const std::string&)> on_end) {
  const auto heard = [self = shared_from_this(), on_message = std::move(on_message), on_end = std::move(on_end)](
                         const boost::system::error_code& failure, size_t) {
    if (self->closed_) return;
    if (failure) return on_end("");
    std::string line;
    std::istream stream(&self->incoming_);
    std::getline(stream, line);
    ControlMessage message;
    try {
      message = parse_control_message(line);
    } catch (const Error& error) {
      return on_end(error.message());
    }
    on_message(message);
  };
  boost::asio::async_read_until(socket_, incoming_, '\n', heard);
}

void ControlLink::close() {
  closed_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace causeway::communicator
