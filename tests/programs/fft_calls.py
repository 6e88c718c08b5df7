"""Transforms of real and complex signals."""
import torch

x = torch.sin(torch.arange(64.0))
print(f"{torch.fft.rfft(x).abs().max().item():.3f}")
print(f"{torch.fft.ifft(torch.fft.fft(x)).real.sub(x).abs().max().item():.1f}")
print(torch.fft.fft2(x.reshape(8, 8)).shape, torch.fft.fftshift(x).shape)
print(torch.stft(x, 16, window=torch.hann_window(16), return_complex=True).shape)
